"""Scaled dot-product attention of several heads, with a mask of queries and keys."""

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
    b,
    generate_heads,
    k,
    q,
    reference_attention,
)
from autosched.apps.sizes import Size
from autosched.lang.dtypes import bool_
from autosched.lang.func import Input
from autosched.lang.functions import select
from autosched.lang.pipeline import Pipeline

MASKED_SHARE = 0.3
"""Share of the keys that the generated mask excludes."""


def build() -> Pipeline:
    """Return the pipeline: as `attention`, with ``mask`` bool [B, Q, K], true where a query attends to a key.

    As in PyTorch, a query that attends to no key has output 0, and -inf is added to scores of excluded keys: a NaN in
    their ``key`` or ``value`` reaches the outputs of its head.
    """
    mask = Input("mask", bool_, 3)
    return attention_pipeline(
        "masked_attention", lambda score: score + select(mask[b, q, k], 0.0, float("-inf")), empty=True
    )


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return normal deviates, and a random mask whose first query attends to no key."""
    rng = np.random.default_rng(seed)
    heads = generate_heads(sizes, rng)
    mask = rng.random((sizes["B"], sizes["Q"], sizes["K"])) >= MASKED_SHARE
    mask[:, 0] = False
    return {**heads, "mask": mask}


def compute(
    query: NDArray[np.float32], key: NDArray[np.float32], value: NDArray[np.float32], mask: NDArray[np.bool_]
) -> Arrays:
    """Return the output in double precision."""
    return reference_attention(query, key, value, lambda scores: scores + np.where(mask, 0, -np.inf)[:, None])


APP = App(
    name="masked_attention",
    build=build,
    papers=(),
    extents={**EXTENTS, "mask": (Size("B"), Size("Q"), Size("K"))},
    default_sizes=DEFAULT_SIZES,
    small_sizes=SMALL_SIZES,
    generate=generate,
    compute=compute,
    tolerance=TOLERANCE,
    variant_of="attention",
)
