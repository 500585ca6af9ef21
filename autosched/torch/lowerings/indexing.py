"""Lowerings of reads at indices from tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from autosched.lang import functions as fn
from autosched.lang.expr import Expr, ExprLike, Load, walk
from autosched.torch.lowerings.pointwise import broadcast
from autosched.torch.lowerings.registry import LoweringContext, register
from autosched.torch.tensors import Point, TensorValue, UnsupportedError

aten = torch.ops.aten


def index_at(
    context: LoweringContext, index: TensorValue, extent: int, what: str, *, wraps: bool = True
) -> TensorValue:
    """Return an index tensor whose elements are in range, and check that those of every call are.

    Args:
        context: The context of the lowering.
        index: Indices; negative ones count from the end.
        extent: Number of elements of the dimension.
        what: The operator, for the error's text.
        wraps: Whether negative indices are allowed.
    """
    low = -extent if wraps else 0
    span = constant_range(index)
    if span is not None and low <= span[0] and span[1] < extent:
        return TensorValue(index.fake, lambda p: _held(index.at(p), span, extent))
    if extent == 0:
        raise UnsupportedError(f"{what} of a dimension without elements")
    held = index.stored(f"{context.name}_index")
    bad = TensorValue(
        index.fake.new_empty(index.shape, dtype=torch.bool), lambda p: (held.at(p) < low) | (held.at(p) >= extent)
    )
    context.add_check(bad, IndexError, f"{what}: an index is out of range for a dimension of {extent} elements")

    def at(p: Point) -> Expr:
        e = held.at(p)
        return fn.clamp(_wrapped(e, extent) if wraps else e, 0, extent - 1)

    return TensorValue(index.fake, at)


def _held(e: Expr, span: tuple[int, int], extent: int) -> Expr:
    """Return an index in range; a clamp states the range where the index is read or rounded."""
    if any(isinstance(n, Load) or n.dtype.is_float for n in walk(e)):
        e = fn.clamp(e, *span)
    return e if span[0] >= 0 else _wrapped(e, extent)


def _wrapped(e: Expr, extent: int) -> Expr:
    return fn.select(e < 0, e + extent, e)


def constant_range(index: TensorValue) -> tuple[int, int] | None:
    """Return smallest and largest element of a tensor that depends on no input; None for others and empty ones."""
    if index.constant is None or not index.constant.numel():
        return None
    return int(index.constant.min()), int(index.constant.max())


def _masks(_: Any, indices: Sequence[Any], *__: Any) -> str | None:
    if any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices):
        return "an index by a mask: its size depends on data"
    return None


@register(aten.index.Tensor, aten._unsafe_index.Tensor, unsupported=_masks)
def lower_index(context: LoweringContext, a: TensorValue, indices: Sequence[TensorValue | None]) -> TensorValue:
    """Read at points given by tensors, which are broadcast with each other."""
    given = {k: i for k, i in enumerate(indices) if i is not None}
    places = sorted(given)
    source = a.stored(f"{context.name}_of")
    ranges = {k: index_at(context, i, a.shape[k], "index") for k, i in given.items()}
    common = _broadcast_shape([i.shape for i in given.values()])
    adjacent = places == list(range(places[0], places[-1] + 1))
    first = places[0] if adjacent else 0

    def at(p: Point) -> Expr:
        of_index = p[first : first + len(common)]
        rest = iter((*p[:first], *p[first + len(common) :]))
        index: list[ExprLike] = [
            broadcast(ranges[k], of_index) if k in ranges else next(rest) for k in range(len(a.shape))
        ]
        return source.at(tuple(index))

    return TensorValue(context.fake, at)


def _broadcast_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(np.broadcast_shapes(*shapes))


@register(aten.gather.default)
def lower_gather(context: LoweringContext, a: TensorValue, dim: int, index: TensorValue, **_: Any) -> TensorValue:
    """Read along one dimension at indices for every point."""
    if not a.shape:
        return a
    axis = dim % len(a.shape)
    source = a.stored(f"{context.name}_of")
    inside = index_at(context, index, a.shape[axis], "gather", wraps=False)
    return TensorValue(context.fake, lambda p: source.at((*p[:axis], inside.at(p), *p[axis + 1 :])))


@register(aten.index_select.default)
def lower_index_select(context: LoweringContext, a: TensorValue, dim: int, index: TensorValue) -> TensorValue:
    """Read slices of one dimension."""
    if not a.shape:
        return a
    axis = dim % len(a.shape)
    source = a.stored(f"{context.name}_of")
    inside = index_at(context, index, a.shape[axis], "index_select", wraps=False)

    def at(p: Point) -> Expr:
        place = inside.at((p[axis],) if index.shape else ())
        return source.at((*p[:axis], place, *p[axis + 1 :]))

    return TensorValue(context.fake, at)


@register(aten.embedding.default)
def lower_embedding(context: LoweringContext, weight: TensorValue, index: TensorValue, *_: Any) -> TensorValue:
    """Read rows of a table."""
    source = weight.stored(f"{context.name}_of")
    inside = index_at(context, index, weight.shape[0], "embedding", wraps=False)
    return TensorValue(context.fake, lambda p: source.at((inside.at(p[:-1]), p[-1])))
