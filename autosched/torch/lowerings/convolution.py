"""Lowerings of convolutions and small matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from autosched.lang import functions as fn
from autosched.lang.expr import Expr, ExprLike
from autosched.lang.operators import as_expr
from autosched.torch.lowerings.pointwise import constant, converted
from autosched.torch.lowerings.reductions import accumulator, fold
from autosched.torch.lowerings.registry import LoweringContext, register
from autosched.torch.lowerings.views import guarded_index
from autosched.torch.tensors import Point, TensorValue, element_type

aten = torch.ops.aten

LARGE_CHANNELS = 32
"""Channels of a group, in and out, from which a convolution is left to libraries of matrix products."""
LARGE_PRODUCT = 64
"""Extents of all three dimensions from which a matrix product is left to a library."""


def _no_small_convolution(a: torch.Tensor, weight: torch.Tensor, *_: Any, **__: Any) -> str | None:
    if min(int(weight.shape[0]), int(weight.shape[1])) >= LARGE_CHANNELS:
        return f"a convolution with {LARGE_CHANNELS} channels or more"
    return None


@register(aten.convolution.default, unsupported=_no_small_convolution)
def lower_convolution(
    context: LoweringContext,
    a: TensorValue,
    weight: TensorValue,
    bias: TensorValue | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> TensorValue:
    """Convolve, in any number of spatial dimensions; zeros lie outside the input."""
    spatial = len(a.shape) - 2
    stride, padding, dilation = (_each(v, spatial) for v in (stride, padding, dilation))
    source, kernel = a.stored(f"{context.name}_of"), weight.stored(f"{context.name}_weight")
    inner = accumulator(a.dtype)
    result = element_type(context.fake.dtype)
    taps = weight.shape[2:]
    channels_in = weight.shape[0] // groups if transposed else weight.shape[1]
    channels_out = weight.shape[1] if transposed else weight.shape[0] // groups
    shape = (*(int(n) for n in context.fake.shape), channels_in, *taps)
    rank = 2 + spatial

    def term(p: Point) -> Expr:
        image, channel = p[0], as_expr(p[1])
        place, c, offsets = p[2:rank], as_expr(p[rank]), p[rank + 1 :]
        group = channel // channels_out if groups > 1 else as_expr(0)
        index: list[ExprLike] = []
        conditions: list[Expr] = []
        for k, (i, t) in enumerate(zip(place, offsets, strict=True)):
            if transposed:
                moved = as_expr(i) + padding[k] - as_expr(t) * dilation[k]
                if stride[k] > 1:
                    conditions.append(moved % stride[k] == 0)
                    moved = moved // stride[k]
            else:
                moved = as_expr(i) * stride[k] - padding[k] + as_expr(t) * dilation[k]
            guarded = transposed or padding[k]
            index.append(guarded_index(source, 2 + k, moved) if guarded else moved)
            if guarded:
                conditions += [moved >= 0, moved < a.shape[2 + k]]
        of_input = group * channels_in + c if groups > 1 else c
        value = converted(source.at((image, of_input, *index)), inner)
        if transposed:
            out = channel % channels_out if groups > 1 else channel
            factor = kernel.at((of_input, out, *offsets))
        else:
            factor = kernel.at((channel, c, *offsets))
        product = value * converted(factor, inner)
        return fn.select(fn.all_of(*conditions), product, constant(0, inner)) if conditions else product

    total = fold("sum", term, shape, range(rank, len(shape)), context.name)

    def at(p: Point) -> Expr:
        value = total(p)
        return converted(value if bias is None else value + converted(bias.at((p[1],)), inner), result)

    return TensorValue(context.fake, at)


def _each(value: Sequence[int], count: int) -> list[int]:
    return [int(v) for v in value] * (count if len(value) == 1 else 1)


def _no_small_product(*operands: Any, **_: Any) -> str | None:
    a, b = [t for t in operands if isinstance(t, torch.Tensor) and t.ndim >= 2][-2:]
    if min(int(a.shape[-2]), int(a.shape[-1]), int(b.shape[-1])) >= LARGE_PRODUCT:
        return f"a matrix product of extents of {LARGE_PRODUCT} or more"
    return None


@register(aten.mm.default, aten.bmm.default, unsupported=_no_small_product)
def lower_mm(context: LoweringContext, a: TensorValue, b: TensorValue) -> TensorValue:
    """Multiply matrices, or batches of them."""
    return _product(context, a, b)


@register(aten.addmm.default, aten.baddbmm.default, unsupported=_no_small_product)
def lower_addmm(
    context: LoweringContext, c: TensorValue, a: TensorValue, b: TensorValue, *, beta: float = 1, alpha: float = 1
) -> TensorValue:
    """Add a matrix, times ``beta``, to a product, times ``alpha``."""
    return _product(context, a, b, c, alpha, beta)


@register(aten.dot.default, aten.mv.default, unsupported=lambda *_, **__: None)
def lower_mv(context: LoweringContext, a: TensorValue, b: TensorValue) -> TensorValue:
    """Multiply a matrix, or a vector, with a vector."""
    inner = accumulator(element_type(context.fake.dtype))
    left, right = a.stored(f"{context.name}_a"), b.stored(f"{context.name}_b")
    result = element_type(context.fake.dtype)
    total = fold(
        "sum",
        lambda p: converted(left.at(p), inner) * converted(right.at(p[-1:]), inner),
        a.shape,
        [len(a.shape) - 1],
        context.name,
    )
    return TensorValue(context.fake, lambda p: converted(total(p), result))


def _product(
    context: LoweringContext,
    a: TensorValue,
    b: TensorValue,
    c: TensorValue | None = None,
    alpha: float = 1,
    beta: float = 1,
) -> TensorValue:
    inner = accumulator(element_type(context.fake.dtype))
    result = element_type(context.fake.dtype)
    left, right = a.stored(f"{context.name}_a"), b.stored(f"{context.name}_b")
    shape = (*a.shape[:-1], b.shape[-1], a.shape[-1])

    def term(p: Point) -> Expr:
        *batch, i, j, k = p
        return converted(left.at((*batch, i, k)), inner) * converted(right.at((*batch, k, j)), inner)

    total = fold("sum", term, shape, [len(shape) - 1], context.name)

    def at(p: Point) -> Expr:
        value = total(p)
        if alpha != 1:
            value = value * constant(alpha, inner)
        if c is not None and beta != 0:
            own = p[len(p) - len(c.shape) :]
            added = c.at(tuple(0 if n == 1 else i for i, n in zip(own, c.shape, strict=True)))
            value = value + converted(added, inner) * constant(beta, inner)
        return converted(value, result)

    return TensorValue(context.fake, at)
