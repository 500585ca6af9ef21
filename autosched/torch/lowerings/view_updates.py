"""Lowerings of updates of views: a range, an element of a dimension, or a diagonal of a tensor."""

from __future__ import annotations

import torch

from autosched.lang import functions as fn
from autosched.lang.expr import Expr, ExprLike
from autosched.lang.operators import as_expr, binary
from autosched.torch.lowerings.pointwise import converted
from autosched.torch.lowerings.registry import LoweringContext, register
from autosched.torch.lowerings.views import axis_of, guarded_index
from autosched.torch.tensors import Point, TensorValue

aten = torch.ops.aten


@register(aten.slice_scatter.default)
def lower_slice_scatter(
    context: LoweringContext,
    a: TensorValue,
    source: TensorValue,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> TensorValue:
    """Replace a range of a dimension."""
    axis = axis_of(dim, len(a.shape))
    first, last, step = slice(start, end, step).indices(a.shape[axis])
    if 0 in source.shape:
        return TensorValue(context.fake, a.at)

    def at(p: Point) -> Expr:
        i = as_expr(p[axis])
        conditions = [i >= first] if first else []
        conditions += [i < last] if last < a.shape[axis] else []
        conditions += [binary("eq", (i - first) % step, 0)] if step != 1 else []
        place: ExprLike = i - first if first else i
        place = guarded_index(source, axis, place // step if step != 1 else place) if conditions else place
        new = converted(source.at((*p[:axis], place, *p[axis + 1 :])), a.dtype)
        return fn.select(fn.all_of(*conditions), new, a.at(p)) if conditions else new

    return TensorValue(context.fake, at)


@register(aten.select_scatter.default)
def lower_select_scatter(
    context: LoweringContext, a: TensorValue, source: TensorValue, dim: int, index: int
) -> TensorValue:
    """Replace one element of a dimension."""
    axis = axis_of(dim, len(a.shape))
    place = index % a.shape[axis]

    def at(p: Point) -> Expr:
        new = converted(source.at((*p[:axis], *p[axis + 1 :])), a.dtype)
        return fn.select(binary("eq", p[axis], place), new, a.at(p))

    return TensorValue(context.fake, at)


@register(aten.diagonal_scatter.default)
def lower_diagonal_scatter(
    context: LoweringContext, a: TensorValue, source: TensorValue, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> TensorValue:
    """Replace a diagonal."""
    rank = len(a.shape)
    rows, columns = axis_of(dim1, rank), axis_of(dim2, rank)
    if 0 in source.shape:
        return TensorValue(context.fake, a.at)

    def at(p: Point) -> Expr:
        row, column = as_expr(p[rows]), as_expr(p[columns])
        others = [i for k, i in enumerate(p) if k not in (rows, columns)]
        place = fn.min(column if offset < 0 else row, source.shape[-1] - 1)
        new = converted(source.at((*others, place)), a.dtype)
        return fn.select(binary("eq", column - row, offset), new, a.at(p))

    return TensorValue(context.fake, at)
