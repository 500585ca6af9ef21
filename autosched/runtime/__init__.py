"""Compile, launch and run generated kernels; the callers' buffers; the on-disk cache."""
