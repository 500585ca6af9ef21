"""The kinds of stages, a module for each family; importing this package registers all of them."""

from __future__ import annotations

from autosched.random_pipelines.registry import KINDS
from autosched.random_pipelines.stages import (
    boundary,
    channels,
    convolution,
    differences,
    fluxes,
    gather,
    layout,
    matrix,
    normalization,
    pointwise,
    pooling,
    pyramid,
    reduction,
    resampling,
    scan,
    scatter,
)

__all__ = [
    "KINDS",
    "boundary",
    "channels",
    "convolution",
    "differences",
    "fluxes",
    "gather",
    "layout",
    "matrix",
    "normalization",
    "pointwise",
    "pooling",
    "pyramid",
    "reduction",
    "resampling",
    "scan",
    "scatter",
]
