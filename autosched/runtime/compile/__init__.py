"""Compilers: NVRTC, the host's C compiler, their messages, and the disk cache of their results.

Begin with `nvrtc` and `host_compiler`.
"""
