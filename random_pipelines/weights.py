"""Arrays of learned weights, and products with them."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.random_pipelines.arithmetic import as_float, converted, multiply
from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.tensor import Tensor, Value

QUANTIZED = 0.5
"""Probability that the weights for a tensor of bytes are bytes too."""


def weights_for(g: Graph, t: Tensor, dims: Sequence[str], shape: Sequence[int], terms: int) -> Tensor:
    """Return an input of weights for products with the values of a tensor.

    Args:
        g: The graph.
        t: The tensor.
        dims: Names of the weights' dimensions.
        shape: Their extents.
        terms: Number of products in each sum: weights are of the order of one over its square root.
    """
    if t.dtype.is_int and t.dtype.bits == 8 and g.draw.chance(QUANTIZED):
        return g.add_input("int8", dims, shape, -128.0, 127.0, "weights")
    bound = 1.0
    while bound * bound * terms > 4.0:
        bound /= 2
    return g.add_input(t.dtype if t.dtype.is_float else "float32", dims, shape, -bound, bound, "weights")


def bias_for(g: Graph, weights: Tensor, dims: Sequence[str], shape: Sequence[int]) -> Value:
    """Return a new input that is added to sums of products with weights, at the Vars of its dimensions."""
    if weights.dtype.is_int:
        return g.add_input("int32", dims, shape, -1024.0, 1023.0, "bias").at()
    return g.add_input("float32", dims, shape, -0.5, 0.5, "bias").at()


def weighted(value: Value, weight: Value) -> Value:
    """Return a product with a weight: in int32 for weights of bytes, else in floating point."""
    if weight.dtype.is_int:
        return multiply(converted(value, "int32"), converted(weight, "int32"))
    return multiply(as_float(value), weight)
