"""Strided tensors as C-contiguous arrays and maps of points, without copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from autosched.lang.expr import ExprLike
from autosched.lang.operators import as_expr
from autosched.torch.tensors import Point


@dataclass(frozen=True)
class Layout:
    """A C-contiguous array in which a strided tensor lies.

    Attributes:
        shape: Extents of the array.
        strides: Strides of the array, in elements.
        axes: Dimensions of the tensor in the order of the array's; empty for a flat array, whose only dimension
            counts elements from the tensor's first.
        moves: Stride of each dimension of the tensor.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    axes: tuple[int, ...]
    moves: tuple[int, ...]

    def array(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the array as a tensor that shares the memory of a tensor of this layout."""
        return tensor.as_strided(self.shape, self.strides)

    def index(self, point: Point) -> tuple[ExprLike, ...]:
        """Return the array's point of a point of the tensor."""
        if self.axes or not self.shape:
            return tuple(point[axis] for axis in self.axes)
        flat = as_expr(0)
        for i, move in zip(point, self.moves, strict=True):
            if move:
                flat = flat + as_expr(i) * move
        return (flat,)


def layout_of(shape: Sequence[int], strides: Sequence[int]) -> Layout:
    """Return the layout of a tensor.

    Dimensions of one element or of stride 0 are not part of the array. A tensor whose dimensions are dense in some
    order is an array of that order; others, such as slices, lie in a flat array.

    Args:
        shape: Extents.
        strides: Strides in elements, not negative.
    """
    if 0 in shape:
        return Layout((0,), (1,), (), (0,) * len(shape))
    moves = tuple(0 if n == 1 else s for n, s in zip(shape, strides, strict=True))
    axes = tuple(sorted((k for k, s in enumerate(moves) if s), key=lambda k: (-moves[k], k)))
    extents = tuple(shape[k] for k in axes)
    dense = 1
    for k in reversed(axes):
        if moves[k] != dense:
            span = 1 + sum((n - 1) * s for n, s in zip(shape, moves, strict=True))
            return Layout((span,), (1,), (), moves)
        dense *= shape[k]
    return Layout(extents, tuple(moves[k] for k in axes), axes, moves)
