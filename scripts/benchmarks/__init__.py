"""Benchmarks: both variants in one run, with their ratio."""
