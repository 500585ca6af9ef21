"""Scaled dot-product attention of several heads, without a mask."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.attention_heads import (
    DEFAULT_SIZES,
    EXTENTS,
    SMALL_SIZES,
    TOLERANCE,
    attention_pipeline,
    generate_heads,
    reference_attention,
)
from autosched.lang.pipeline import Pipeline


def build() -> Pipeline:
    """Return the pipeline: ``query`` [B, H, Q, D], ``key`` and ``value`` [B, H, K, D] to ``output`` [B, H, Q, D].

    All are float32.
    """
    return attention_pipeline("attention")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return normal deviates."""
    return generate_heads(sizes, np.random.default_rng(seed))


def compute(query: NDArray[np.float32], key: NDArray[np.float32], value: NDArray[np.float32]) -> Arrays:
    """Return the output in double precision."""
    return reference_attention(query, key, value)


APP = App(
    name="attention",
    build=build,
    papers=(),
    extents=EXTENTS,
    default_sizes=DEFAULT_SIZES,
    small_sizes=SMALL_SIZES,
    generate=generate,
    compute=compute,
    tolerance=TOLERANCE,
)
