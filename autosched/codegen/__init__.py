"""Kernel IR as source text: CUDA C, and C with OpenMP."""
