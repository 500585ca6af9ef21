"""Lowerings of the gradients of padding by the outermost elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from autosched.lang import functions as fn
from autosched.lang.expr import Expr
from autosched.lang.operators import as_expr, binary
from autosched.torch.lowerings.pointwise import constant, converted
from autosched.torch.lowerings.reductions import accumulator, fold
from autosched.torch.lowerings.registry import LoweringContext, register
from autosched.torch.tensors import Point, TensorValue, element_type

aten = torch.ops.aten


def _crops(gradient: torch.Tensor, a: torch.Tensor, padding: Sequence[int]) -> str | None:
    return "a negative width of padding" if any(width < 0 for width in padding) else None


@register(
    aten.replication_pad1d_backward.default,
    aten.replication_pad2d_backward.default,
    aten.replication_pad3d_backward.default,
    unsupported=_crops,
)
def lower_replication_pad_backward(
    context: LoweringContext, gradient: TensorValue, a: TensorValue, padding: Sequence[int]
) -> TensorValue:
    """Add the gradients of padding to those of the outermost elements, one dimension after another."""
    inner, result = accumulator(gradient.dtype), element_type(context.fake.dtype)
    summed = TensorValue(gradient.fake, lambda p: converted(gradient.at(p), inner))
    rank = len(a.shape)
    for k in range(len(padding) // 2):
        axis = rank - 1 - k
        summed = _folded_back(context, summed, axis, padding[2 * k], padding[2 * k + 1])
    return TensorValue(context.fake, lambda p: converted(summed.at(p), result))


def _folded_back(context: LoweringContext, a: TensorValue, axis: int, before: int, after: int) -> TensorValue:
    """Return a tensor without the padding of one dimension, whose elements are added to the outermost ones."""
    source = a.stored(f"{context.name}_{axis}_of")
    shape = a.shape
    n = shape[axis] - before - after
    sums: list[tuple[int, Any]] = []
    for place, first, count, side in ((0, 0, before, "before"), (n - 1, before + n, after, "after")):
        if count:
            part = [*shape[:axis], count, *shape[axis + 1 :]]

            def term(p: Point, first: int = first) -> Expr:
                return source.at((*p[:axis], as_expr(p[axis]) + first, *p[axis + 1 :]))

            sums.append((place, fold("sum", term, part, [axis], f"{context.name}_{axis}_{side}")))

    def at(p: Point) -> Expr:
        value = source.at((*p[:axis], as_expr(p[axis]) + before, *p[axis + 1 :]))
        for place, total in sums:
            edge = total((*p[:axis], *p[axis + 1 :]))
            value = value + fn.select(binary("eq", p[axis], place), edge, constant(0, value.dtype))
        return value

    fake = a.fake.new_empty((*shape[:axis], n, *shape[axis + 1 :]))
    return TensorValue(fake, at)
