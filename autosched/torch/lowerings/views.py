"""Lowerings of views, padding and concatenation: maps of points, without copies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from autosched.lang import functions as fn
from autosched.lang.expr import Expr, ExprLike
from autosched.lang.operators import as_expr
from autosched.torch.lowerings.pointwise import constant, copied
from autosched.torch.lowerings.registry import LoweringContext, register
from autosched.torch.tensors import Point, TensorValue, UnsupportedError, element_type, view_of

aten = torch.ops.aten


def axis_of(dim: int, rank: int) -> int:
    """Return a dimension as a number from 0."""
    return dim % rank if rank else 0


@register(aten.expand.default)
def lower_expand(context: LoweringContext, a: TensorValue, *_: Any, **__: Any) -> TensorValue:
    """Repeat dimensions of one element."""

    def index(point: Point) -> Sequence[ExprLike]:
        own = point[len(point) - len(a.shape) :]
        return [0 if n == 1 else i for i, n in zip(own, a.shape, strict=True)]

    return view_of(a, context.fake, index)


@register(aten.permute.default)
def lower_permute(context: LoweringContext, a: TensorValue, dims: Sequence[int]) -> TensorValue:
    """Permute dimensions."""
    rank = len(dims)
    places = {axis_of(d, rank): k for k, d in enumerate(dims)}
    return view_of(a, context.fake, lambda p: [p[places[axis]] for axis in range(rank)])


@register(aten.transpose.int)
def lower_transpose(context: LoweringContext, a: TensorValue, first: int, second: int) -> TensorValue:
    """Exchange two dimensions."""
    order = list(range(len(a.shape)))
    i, j = axis_of(first, len(order)), axis_of(second, len(order))
    order[i], order[j] = order[j], order[i]
    return lower_permute(context, a, order)


@register(aten.t.default)
def lower_t(context: LoweringContext, a: TensorValue) -> TensorValue:
    """Transpose a matrix."""
    return lower_permute(context, a, list(range(len(a.shape)))[::-1])


@register(aten.unsqueeze.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims,
          aten.view.default, aten._unsafe_view.default, aten.reshape.default)  # fmt: skip
def lower_reshape(context: LoweringContext, a: TensorValue, *_: Any, **__: Any) -> TensorValue:
    """Give the elements, in order, another shape."""
    old, new = a.shape, tuple(int(n) for n in context.fake.shape)
    groups = merged_dims(old, new)
    view = view_of(a, context.fake, lambda p: reshaped_index(p, old, new))
    return view if groups is None else replace(view, merged=(a, groups))


def merged_dims(old: Sequence[int], new: Sequence[int]) -> tuple[tuple[int, ...], ...] | None:
    """Return the neighbouring dimensions that each dimension of a reshape merges; None for another reshape.

    Args:
        old: Shape of the tensor.
        new: Shape of the reshape.
    """
    groups: list[tuple[int, ...]] = []
    first = 0
    for n in new:
        end = first
        while end < len(old) and (end == first or math.prod(old[first:end]) < n):
            end += 1
        if end == first or math.prod(old[first:end]) != n:
            return None
        groups.append(tuple(range(first, end)))
        first = end
    return tuple(groups) if first == len(old) > len(new) else None


def reshaped_index(point: Point, old: Sequence[int], new: Sequence[int]) -> list[ExprLike]:
    """Return the point of a tensor that a reshape of it reads.

    Dimensions are matched in the smallest groups of equal products, so that few points are divided.

    Args:
        point: A point of the new shape.
        old: Shape of the tensor.
        new: Shape of the reshape.
    """
    index: list[ExprLike] = []
    if math.prod(old) == 0:
        return [0] * len(old)
    i = j = 0
    while i < len(old) or j < len(new):
        first, start = i, j
        left = right = 1
        if i < len(old):
            left, i = old[i], i + 1
        if j < len(new):
            right, j = new[j], j + 1
        while left != right:
            if left < right:
                left, i = left * old[i], i + 1
            else:
                right, j = right * new[j], j + 1
        while i < len(old) and old[i] == 1 and (j == len(new) or new[j] != 1):
            i += 1
        while j < len(new) and new[j] == 1 and (i == len(old) or old[i] != 1):
            j += 1
        index += _split(_joined(point[start:j], new[start:j]), old[first:i])
    return index


def _joined(point: Sequence[ExprLike], extents: Sequence[int]) -> ExprLike:
    """Return the number of a point in a box, in order."""
    flat: ExprLike = 0
    for i, n in zip(point, extents, strict=True):
        if n != 1:
            flat = as_expr(flat) * n + i
    return flat


def _split(flat: ExprLike, extents: Sequence[int]) -> list[ExprLike]:
    """Return the point of a box with some number; the outermost coordinate needs no remainder."""
    index: list[ExprLike] = []
    size = math.prod(extents)
    rest: ExprLike = flat
    outermost = True
    for n in extents:
        size //= n
        if n == 1:
            index.append(0)
            continue
        e = as_expr(rest)
        quotient = e if size == 1 else e // size
        index.append(quotient if outermost else quotient % n)
        outermost = False
    return index


@register(aten.select.int)
def lower_select(context: LoweringContext, a: TensorValue, dim: int, index: int) -> TensorValue:
    """Take one element of a dimension."""
    axis = axis_of(dim, len(a.shape))
    at = index % a.shape[axis]
    return view_of(a, context.fake, lambda p: [*p[:axis], at, *p[axis:]])


@register(aten.slice.Tensor)
def lower_slice(
    context: LoweringContext,
    a: TensorValue,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> TensorValue:
    """Take a range of a dimension."""
    axis = axis_of(dim, len(a.shape))
    first = slice(start, end, step).indices(a.shape[axis])[0]
    return view_of(a, context.fake, lambda p: [*p[:axis], _moved(p[axis], first, step), *p[axis + 1 :]])


def _moved(i: ExprLike, offset: int, step: int = 1) -> ExprLike:
    e = as_expr(i)
    if step != 1:
        e = e * step
    return e + offset if offset else e


@register(aten.split_with_sizes.default)
def lower_split(
    context: LoweringContext, a: TensorValue, sizes: Sequence[int], dim: int = 0
) -> tuple[TensorValue, ...]:
    """Divide a dimension into ranges."""
    axis = axis_of(dim, len(a.shape))
    starts = [sum(sizes[:k]) for k in range(len(sizes))]
    return tuple(_range(a, fake, axis, start) for start, fake in zip(starts, context.fake, strict=True))


def _range(a: TensorValue, fake: torch.Tensor, axis: int, first: int) -> TensorValue:
    """Return the range of a dimension that begins at an element."""
    return view_of(a, fake, lambda p: [*p[:axis], _moved(p[axis], first), *p[axis + 1 :]])


@register(aten.flip.default)
def lower_flip(context: LoweringContext, a: TensorValue, dims: Sequence[int]) -> TensorValue:
    """Reverse dimensions."""
    axes = {axis_of(d, len(a.shape)) for d in dims}
    return view_of(
        a, context.fake, lambda p: [a.shape[k] - 1 - as_expr(i) if k in axes else i for k, i in enumerate(p)]
    )


@register(aten.roll.default)
def lower_roll(
    context: LoweringContext, a: TensorValue, shifts: Sequence[int], dims: Sequence[int] = ()
) -> TensorValue:
    """Rotate the elements of dimensions, or of the flat tensor."""
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    if not dims:
        size = math.prod(a.shape)

        def rolled(p: Point) -> list[ExprLike]:
            return _split((as_expr(_joined(p, a.shape)) + (-shifts[0] % size)) % size, a.shape)

        return view_of(a, context.fake, rolled if size else lambda p: [0] * len(a.shape))
    total = [0] * len(a.shape)
    for shift, dim in zip(shifts, [dims] if isinstance(dims, int) else dims, strict=True):
        total[axis_of(dim, len(a.shape))] += shift
    moves = [-s % n if n else 0 for s, n in zip(total, a.shape, strict=True)]
    return view_of(
        a, context.fake, lambda p: [(as_expr(i) + m) % n if m else i for i, m, n in zip(p, moves, a.shape, strict=True)]
    )


@register(aten.unfold.default)
def lower_unfold(context: LoweringContext, a: TensorValue, dim: int, size: int, step: int) -> TensorValue:
    """Take windows along a dimension; the last dimension counts inside a window."""
    axis = axis_of(dim, len(a.shape))
    if not a.shape:
        return view_of(a, context.fake, lambda p: [])
    return view_of(a, context.fake, lambda p: [*p[:axis], as_expr(p[axis]) * step + p[-1], *p[axis + 1 : -1]])


@register(aten.diagonal.default)
def lower_diagonal(
    context: LoweringContext, a: TensorValue, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> TensorValue:
    """Take a diagonal, which becomes the last dimension."""
    rank = len(a.shape)
    first, second = axis_of(dim1, rank), axis_of(dim2, rank)

    def index(p: Point) -> list[ExprLike]:
        others = iter(p[:-1])
        places = {first: _moved(p[-1], max(-offset, 0)), second: _moved(p[-1], max(offset, 0))}
        return [places[axis] if axis in places else next(others) for axis in range(rank)]

    return view_of(a, context.fake, index)


@register(aten.as_strided.default, unsupported=lambda *_, **__: "as_strided")
def lower_as_strided(context: LoweringContext, a: TensorValue, *_: Any) -> TensorValue:
    """Refuse: the strides of a graph's tensors are those of PyTorch, those of ours differ."""
    raise UnsupportedError("as_strided")


@register(aten.pixel_shuffle.default)
def lower_pixel_shuffle(context: LoweringContext, a: TensorValue, factor: int) -> TensorValue:
    """Move blocks of channels to blocks of pixels."""

    def index(p: Point) -> list[ExprLike]:
        c, y, x = (as_expr(i) for i in p[-3:])
        return [*p[:-3], (c * factor + y % factor) * factor + x % factor, y // factor, x // factor]

    return view_of(a, context.fake, index)


@register(aten.pixel_unshuffle.default)
def lower_pixel_unshuffle(context: LoweringContext, a: TensorValue, factor: int) -> TensorValue:
    """Move blocks of pixels to blocks of channels."""

    def index(p: Point) -> list[ExprLike]:
        c, y, x = (as_expr(i) for i in p[-3:])
        block = factor * factor
        return [*p[:-3], c // block, y * factor + c % block // factor, x * factor + c % factor]

    return view_of(a, context.fake, index)


@register(aten.repeat.default)
def lower_repeat(context: LoweringContext, a: TensorValue, repeats: Sequence[int]) -> TensorValue:
    """Repeat the tensor along its dimensions."""

    def index(p: Point) -> list[ExprLike]:
        own = p[len(p) - len(a.shape) :]
        times = repeats[len(repeats) - len(a.shape) :]
        return [0 if n == 1 else as_expr(i) % n if k != 1 else i for i, n, k in zip(own, a.shape, times, strict=True)]

    return view_of(a, context.fake, index)


def guarded_index(a: TensorValue, axis: int, index: ExprLike) -> ExprLike:
    """Return an index that a condition guards, clamped unless the tensor is an array.

    Bounds of an array's own coordinate follow from the condition, those of an index into a flat array do not.
    """
    return index if a.source is not None else fn.clamp(index, 0, a.shape[axis] - 1)


@register(aten.cat.default)
def lower_cat(context: LoweringContext, tensors: Sequence[TensorValue], dim: int = 0) -> TensorValue:
    """Join tensors along a dimension."""
    rank = context.fake.ndim
    axis = axis_of(dim, rank)
    parts = [t for t in tensors if len(t.shape) == rank and t.shape[axis]]  # an empty one may have any rank
    dtype = element_type(context.fake.dtype)

    def at(p: Point) -> Expr:
        low = sum(t.shape[axis] for t in parts)
        result: Expr | None = None
        for t in reversed(parts):
            low -= t.shape[axis]
            moved = guarded_index(t, axis, _moved(p[axis], -low))
            here = fn.cast(dtype, t.at((*p[:axis], moved, *p[axis + 1 :])))
            result = here if result is None else fn.select(as_expr(p[axis]) < low + t.shape[axis], here, result)
        return result if result is not None else constant(0, dtype)

    if len(parts) == 1 and parts[0].fake.dtype == context.fake.dtype:
        return copied(context, parts[0])
    return TensorValue(context.fake, at)


@register(aten.constant_pad_nd.default)
def lower_constant_pad(context: LoweringContext, a: TensorValue, pad: Sequence[int], value: float = 0) -> TensorValue:
    """Pad with a number; a negative width crops."""
    rank = len(a.shape)
    before = [0] * rank
    after = [0] * rank
    for k in range(len(pad) // 2):
        before[rank - 1 - k], after[rank - 1 - k] = pad[2 * k], pad[2 * k + 1]
    filled = constant(value, a.dtype)

    def at(p: Point) -> Expr:
        index: list[ExprLike] = []
        conditions: list[Expr] = []
        for k, (i, low, high, n) in enumerate(zip(p, before, after, a.shape, strict=True)):
            moved = as_expr(_moved(i, -low))
            index.append(guarded_index(a, k, moved) if low > 0 or high > 0 else moved)
            if low > 0:
                conditions.append(moved >= 0)
            if high > 0:
                conditions.append(moved < n)
        return fn.select(fn.all_of(*conditions), a.at(tuple(index)), filled) if conditions else a.at(tuple(index))

    if math.prod(a.shape) == 0:
        return TensorValue(context.fake, lambda p: filled)
    return TensorValue(context.fake, at)
