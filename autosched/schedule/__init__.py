"""Schedules: partition of a pipeline into kernels, and execution of each kernel's loops."""
