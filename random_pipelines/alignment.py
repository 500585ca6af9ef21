"""Reading tensors of one shape at the points of another."""

from __future__ import annotations

from collections.abc import Mapping

from autosched.lang.expr import ExprLike, Var
from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.tensor import Tensor, Value

ALIKE = 0.7
"""Probability that tensors of the same extents are preferred as further operands."""


def resampled_to_shape(g: Graph, t: Tensor, shape: Mapping[str, int]) -> Value:
    """Return a tensor's value at the Vars of a shape, always within the tensor.

    Dimensions are matched by name. A shorter one is stretched, a longer one cropped in the middle or subsampled.
    A dimension that the shape lacks has one random index.
    """
    at: dict[str, ExprLike] = {}
    for d, extent in t.extents.items():
        if d not in shape:
            at[d] = g.draw.integer(0, min(extent, 4) - 1)
        elif extent == 1 and shape[d] > 1:
            at[d] = 0
        elif extent < shape[d]:
            at[d] = Var(d) // -(-shape[d] // extent)
        elif extent > shape[d]:
            step = extent // shape[d]
            at[d] = Var(d) * step if step > 1 else Var(d) + (extent - shape[d]) // 2
    return t.at(at)


def random_partner(g: Graph, t: Tensor) -> Tensor | None:
    """Return another tensor to combine with one, mostly one whose common dimensions have the same extents."""
    if g.draw.chance(ALIKE):
        partner = g.pick(lambda o: o is not t and o.dims == t.dims and o.shape == t.shape)
        partner = partner or g.pick(lambda o: o is not t and _broadcasts(o, t))
        if partner is not None:
            return partner
    return g.pick(lambda o: o is not t and all(d in t.dims for d in o.spatial))


def _broadcasts(a: Tensor, b: Tensor) -> bool:
    return all(b.extents.get(d) == n for d, n in a.extents.items())
