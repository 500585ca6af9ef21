"""Lowerings of ATen operators to the language, one module for each family."""

from autosched.torch.lowerings import convolution, division, elementary, indexing, pointwise, reductions, views
from autosched.torch.lowerings.registry import LOWERINGS, Entry, Lowering, LoweringContext, register

__all__ = [
           "LOWERINGS",
           "Entry",
           "Lowering",
           "LoweringContext",
           "convolution",
           "division",
           "elementary",
           "indexing",
           "pointwise",
           "reductions",
           "register",
           "views",
]  # fmt: skip
