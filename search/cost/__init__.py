"""Cost models of kernels. `protocol` is their interface.

Begin with `gpu_analytical` for GPUs, and with `cpu.analytical` for CPUs.
"""
