"""Timing of compiled kernels on cold inputs, on the host and on a GPU."""
