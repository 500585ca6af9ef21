"""Benchmarks: both sides in one process run, with the ratio."""
