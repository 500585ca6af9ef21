"""Kernel sketches: kernels without tile sizes, whose tile sizes are arrays.

`sketch_from_kernel` and `kernel_from_sketch` are inverses. Begin with `sketch`.
"""
