"""Windows of neighbours, with optional padding, stride and dilation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autosched.lang.expr import ExprLike, Var
from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.tensor import Tensor, Value

VALID = 0.25
"""Probability that a window stays inside the tensor, so that the result is smaller and needs no padding."""


@dataclass(frozen=True, slots=True)
class StencilWindow:
    """Neighbours of each point of a tensor.

    Attributes:
        source: The tensor, padded if necessary.
        taps: Number of neighbours by dimension.
        first: Index of the first neighbour, relative to the point.
        stride: Distance of the points, in points of the source.
        dilation: Distance of the neighbours.
        shape: Extents of the result, by dimension.
    """

    source: Tensor
    taps: Mapping[str, int]
    first: Mapping[str, int]
    stride: Mapping[str, int]
    dilation: int
    shape: Mapping[str, int]

    def at(self, tap: Mapping[str, ExprLike], coordinates: Mapping[str, ExprLike] | None = None) -> Value:
        """Return a neighbour of the point at the Vars.

        Args:
            tap: Its number by dimension, from 0.
            coordinates: Coordinates in the other dimensions, where they are not the Vars.
        """
        point = {d: Var(d) * self.stride.get(d, 1) + (tap[d] * self.dilation + self.first[d]) for d in self.taps}
        return self.source.at({**(coordinates or {}), **point})


def window(g: Graph, t: Tensor, taps: Mapping[str, int], *, stride: int = 1, dilation: int = 1) -> StencilWindow | None:
    """Return the neighbours of a tensor's points, or None if it is too small.

    Args:
        g: The graph, which draws the padding.
        t: The tensor.
        taps: Neighbours by dimension.
        stride: Distance of the points in these dimensions; ignored where a dimension is shorter.
        dilation: Distance of the neighbours.
    """
    reach = {d: (n - 1) * dilation for d, n in taps.items()}
    if any(t[d] <= reach[d] for d in taps):
        return None
    strides = {d: stride if t[d] >= 2 * stride else 1 for d in taps}
    inside = g.draw.chance(VALID)
    extents = t.extents
    for d in taps:
        span = t[d] - reach[d] if inside else t[d]
        extents[d] = -(-span // strides[d])
    source = t if inside else g.readable(t, list(taps))
    first = {d: 0 if inside else -(reach[d] // 2) for d in taps}
    return StencilWindow(source, taps, first, strides, dilation, extents)
