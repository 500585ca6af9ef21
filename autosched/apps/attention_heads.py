"""Scaled dot-product attention of several heads: pipeline, inputs and reference of the apps of attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import Arrays
from autosched.apps.sizes import Extent, Size
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import float32
from autosched.lang.expr import Expr, Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import cast, exp, max, select, sqrt
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom, maximum
from autosched.lang.rdom import sum as sum_over

EXTENTS: Mapping[str, tuple[Extent, ...]] = {
    "query": (Size("B"), Size("H"), Size("Q"), Size("D")),
    "key": (Size("B"), Size("H"), Size("K"), Size("D")),
    "value": (Size("B"), Size("H"), Size("K"), Size("D")),
}
DEFAULT_SIZES = {"D": 32, "K": 257, "Q": 257, "H": 4, "B": 2}
SMALL_SIZES = {"D": 5, "K": 19, "Q": 17, "H": 2, "B": 2}
TOLERANCE = Tolerance(rtol=2e-5, atol=1e-5)  # sums are in single precision, in another order
LEAST = float(np.finfo(np.float32).min)

b, h, q, k, d = Var("b"), Var("h"), Var("q"), Var("k"), Var("d")
Mask = Callable[[Expr], Expr]
"""Returns the score of query ``q`` and key ``k`` in batch ``b``, -inf where the mask excludes the key."""


def attention_pipeline(name: str, mask: Mask | None = None, *, empty: bool = False) -> Pipeline:
    """Return the pipeline: ``query`` [B, H, Q, D], ``key`` and ``value`` [B, H, K, D] to ``output`` [B, H, Q, D].

    The division by the sum of exponentials follows the product with ``value``: D divisions a query in place of K.

    Args:
        name: Name of the pipeline.
        mask: Applies a mask to a score.
        empty: Whether the mask may exclude all keys of a query; its output is 0 then, as in PyTorch.
    """
    query, key, value = (Input(n, float32, 4) for n in EXTENTS)
    batch, heads, queries, size = query.shape
    keys = key.shape[2]
    along, over_keys = RDom("along", d=size), RDom("over", k=keys)
    scores, weights, output = Func("scores"), Func("weights"), Func("output")
    product = sum_over(query[b, h, q, along.d] * key[b, h, k, along.d], over=along, name="products")
    score = product * (1 / sqrt(cast(float32, size)))
    scores[b, h, q, k] = mask(score) if mask else score
    largest = maximum(scores[b, h, q, over_keys.k], over=over_keys, name="largest")
    weights[b, h, q, k] = exp(scores[b, h, q, k] - (max(largest, LEAST) if empty else largest))
    total = sum_over(weights[b, h, q, over_keys.k], over=over_keys, name="total")
    weighted = sum_over(weights[b, h, q, over_keys.k] * value[b, h, over_keys.k, d], over=over_keys, name="weighted")
    output[b, h, q, d] = weighted / (select(total == 0, 1.0, total) if empty else total)
    return Pipeline(output.over(b=(0, batch), h=(0, heads), q=(0, queries), d=(0, size)), name=name)


def generate_heads(sizes: Mapping[str, int], rng: np.random.Generator) -> Arrays:
    """Return ``query``, ``key`` and ``value`` of normal deviates."""
    shapes = {name: tuple(sizes[str(extent)] for extent in extents) for name, extents in EXTENTS.items()}
    return {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


def reference_attention(
    query: NDArray[np.float32],
    key: NDArray[np.float32],
    value: NDArray[np.float32],
    mask: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
) -> Arrays:
    """Return ``output`` in double precision.

    Args:
        query: Queries [B, H, Q, D].
        key: Keys [B, H, K, D].
        value: Values [B, H, K, D].
        mask: Returns the scores [B, H, Q, K] with -inf for excluded keys; a query without keys has output 0.
    """
    with np.errstate(invalid="ignore"):
        scores = query.astype(np.float64) @ key.astype(np.float64).swapaxes(2, 3) / np.sqrt(query.shape[3])
        scores = mask(scores) if mask else scores
        largest = scores.max(axis=3, keepdims=True)
        weights = np.exp(scores - np.where(largest == -np.inf, 0, largest))
        total = weights.sum(axis=3, keepdims=True)
        output = weights @ value.astype(np.float64) / np.where(total == 0, 1, total)
    return {"output": output.astype(np.float32)}
