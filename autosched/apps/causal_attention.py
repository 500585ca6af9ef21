"""Scaled dot-product attention of several heads, in which queries attend to no later key."""

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
    k,
    q,
    reference_attention,
)
from autosched.lang.functions import select
from autosched.lang.pipeline import Pipeline


def build() -> Pipeline:
    """Return the pipeline: as `attention`, where query ``q`` attends to the keys ``0..q``.

    With several queries and keys of different number, the first of each are aligned, as by PyTorch's ``is_causal``.
    """
    return attention_pipeline("causal_attention", lambda score: select(k <= q, score, float("-inf")))


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return normal deviates."""
    return generate_heads(sizes, np.random.default_rng(seed))


def compute(query: NDArray[np.float32], key: NDArray[np.float32], value: NDArray[np.float32]) -> Arrays:
    """Return the output in double precision."""
    later = np.arange(key.shape[2]) > np.arange(query.shape[2])[:, None]
    return reference_attention(query, key, value, lambda scores: np.where(later, -np.inf, scores))


APP = App(
    name="causal_attention",
    build=build,
    papers=(),
    extents=EXTENTS,
    default_sizes=DEFAULT_SIZES,
    small_sizes=SMALL_SIZES,
    generate=generate,
    compute=compute,
    tolerance=TOLERANCE,
    variant_of="attention",
)
