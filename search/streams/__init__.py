"""Reductions in steps: which kernels may stage their terms in shared memory, and how that pays."""
