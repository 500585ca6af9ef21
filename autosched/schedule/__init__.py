"""Schedules: how a pipeline is cut into kernels and how each kernel's loops run."""
