"""Lowerings of the search for a bin among few sorted boundaries."""

from __future__ import annotations

from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kind

from autosched.lang.dtypes import int32
from autosched.lang.expr import Expr
from autosched.torch.lowerings.pointwise import Operand, converted, operand_at, types_of
from autosched.torch.lowerings.reductions import fold
from autosched.torch.lowerings.registry import LoweringContext, register
from autosched.torch.tensors import Point, TensorValue, element_type

aten = torch.ops.aten

MOST_BOUNDARIES = 64
"""Most boundaries: all of them are compared with each element, where PyTorch divides the interval."""


def _many(boundaries: torch.Tensor, sorter: Any = None) -> str | None:
    if sorter is not None:
        return "a search with a sorter"
    if boundaries.ndim == 0 or boundaries.shape[-1] > MOST_BOUNDARIES:
        return f"a search among more than {MOST_BOUNDARIES} boundaries"
    return None


@register(aten.bucketize.Tensor, unsupported=lambda a, boundaries, **_: _many(boundaries))
def lower_bucketize(
    context: LoweringContext, a: TensorValue, boundaries: TensorValue, *, right: bool = False, **_: Any
) -> TensorValue:
    """Return the number of boundaries below each element, by ``right`` also of those equal to it."""
    return _counted(context, a, boundaries, right)


@register(aten.searchsorted.Tensor, unsupported=lambda boundaries, a, sorter=None, **_: _many(boundaries, sorter))
def lower_searchsorted(
    context: LoweringContext,
    boundaries: TensorValue,
    a: TensorValue,
    *,
    right: bool = False,
    side: str | None = None,
    **_: Any,
) -> TensorValue:
    """Return the number of boundaries below each element, in rows where there are several."""
    return _counted(context, a, boundaries, right or side == "right")


def _counted(context: LoweringContext, a: TensorValue, boundaries: TensorValue, right: bool) -> TensorValue:
    operands: tuple[Operand, Operand] = (a, boundaries)
    inner, _ = types_of(operands, Kind.DEFAULT)
    result = element_type(context.fake.dtype)
    source = boundaries.stored(f"{context.name}_boundaries")
    rank = len(a.shape)

    def term(p: Point) -> Expr:
        row = p[: rank - 1] if len(boundaries.shape) > 1 else ()
        bound = converted(source.at((*row, p[-1])), inner)
        value = operand_at(a, p[:-1], inner)
        return converted(~((bound > value) if right else (bound >= value)), int32)  # a NaN lies beyond all

    total = fold("sum", term, (*a.shape, boundaries.shape[-1]), [rank], context.name)
    return TensorValue(context.fake, lambda p: converted(total(p), result))
