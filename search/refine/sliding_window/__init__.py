"""Sliding windows for kernels that recompute halos: directions, step counts and tilings.

Begin with `sliding_search`.
"""
