"""Samples and batches that networks are trained on.

Begin with `samples` and `dataset`.
"""
