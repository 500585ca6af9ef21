"""Cost models of kernels. `protocol` says what a search asks of one.

Begin with `gpu_analytical` for GPUs, and with `cpu.analytical` for CPUs.
"""
