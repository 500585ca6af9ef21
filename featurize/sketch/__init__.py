"""Kernel sketches: kernels without tile sizes, and tile sizes as arrays beside them.

`sketch_from_kernel` and `kernel_from_sketch` are inverses. Begin with `sketch`.
"""
