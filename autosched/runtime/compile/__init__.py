"""Compilers and what they leave behind: NVRTC, the host's C compiler, the disk cache, their messages.

Begin with `nvrtc` and `host_compiler`.
"""
