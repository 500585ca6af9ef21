"""Lowerings of the gradients of convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from autosched.lang import functions as fn
from autosched.lang.expr import Expr, ExprLike
from autosched.lang.operators import as_expr
from autosched.torch.lowerings.convolution import lower_convolution
from autosched.torch.lowerings.pointwise import constant, converted
from autosched.torch.lowerings.reductions import accumulator, fold
from autosched.torch.lowerings.registry import LOWERINGS, LoweringContext, register
from autosched.torch.lowerings.views import guarded_index
from autosched.torch.tensors import Point, TensorValue, element_type

aten = torch.ops.aten


def _no_small_convolution(gradient: torch.Tensor, a: torch.Tensor, weight: torch.Tensor, *_: Any) -> str | None:
    unsupported = LOWERINGS[aten.convolution.default].unsupported
    return unsupported(a, weight) if unsupported is not None else None


@register(aten.convolution_backward.default, unsupported=_no_small_convolution)
def lower_convolution_backward(
    context: LoweringContext,
    gradient: TensorValue,
    a: TensorValue,
    weight: TensorValue,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[TensorValue | None, ...]:
    """Return the gradients of input, weight and bias.

    That of the input is a convolution with the same weight, transposed where the convolution is not.
    """
    held = gradient.stored(f"{context.name}_gradient")
    of_input = of_weight = of_bias = None
    if output_mask[0]:
        own = replace(context, name=f"{context.name}_input", fake=context.fake[0])
        of_input = lower_convolution(
            own, held, weight, None, stride, padding, dilation, not transposed, output_padding, groups
        )
    if output_mask[1]:
        own = replace(context, name=f"{context.name}_weight", fake=context.fake[1])
        outer, moved = (a.stored(f"{context.name}_of"), held) if transposed else (held, a.stored(f"{context.name}_of"))
        of_weight = _weight_gradient(own, outer, moved, stride, padding, dilation, groups)
    if output_mask[2]:
        of_bias = _bias_gradient(replace(context, name=f"{context.name}_bias", fake=context.fake[2]), held)
    return of_input, of_weight, of_bias


def _weight_gradient(
    context: LoweringContext,
    outer: TensorValue,
    moved: TensorValue,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> TensorValue:
    """Return the sum of products of a tensor with the one that its windows read.

    Args:
        context: The context of the lowering.
        outer: Tensor of the windows: the result's gradient, or the input of a transposed convolution.
        moved: The other tensor.
        stride: Distance of windows, one number or one for each spatial dimension, as are the next two.
        padding: Elements before the tensor.
        dilation: Distance of taps.
        groups: Groups of channels.
    """
    inner, result = accumulator(outer.dtype), element_type(context.fake.dtype)
    spatial = len(outer.shape) - 2
    steps, before, spread = (list(v) * (spatial if len(v) == 1 else 1) for v in (stride, padding, dilation))
    weight_shape = tuple(int(n) for n in context.fake.shape)
    channels, of_group = weight_shape[0] // groups, weight_shape[1]
    taps = weight_shape[2:]
    shape = (*weight_shape, outer.shape[0], *outer.shape[2:])
    zero = constant(0, inner)

    def term(p: Point) -> Expr:
        first, second = p[0], p[1]
        offsets, image, place = p[2 : 2 + spatial], p[2 + spatial], p[3 + spatial :]
        index: list[ExprLike] = []
        conditions: list[Expr] = []
        for k, (i, t) in enumerate(zip(place, offsets, strict=True)):
            e = as_expr(i) * steps[k] - before[k] + as_expr(t) * spread[k]
            last = (outer.shape[2 + k] - 1) * steps[k] - before[k] + (taps[k] - 1) * spread[k]
            conditions += [e >= 0] if before[k] else []
            conditions += [e < moved.shape[2 + k]] if last >= moved.shape[2 + k] else []
            index.append(guarded_index(moved, 2 + k, e) if before[k] or last >= moved.shape[2 + k] else e)
        channel = as_expr(first) // channels * of_group + second if groups > 1 else second
        product = converted(outer.at((image, first, *place)), inner) * converted(
            moved.at((image, channel, *index)), inner
        )
        return fn.select(fn.all_of(*conditions), product, zero) if conditions else product

    total = fold("sum", term, shape, range(2 + spatial, len(shape)), context.name)
    return TensorValue(context.fake, lambda p: converted(total(p), result))


def _bias_gradient(context: LoweringContext, gradient: TensorValue) -> TensorValue:
    inner, result = accumulator(gradient.dtype), element_type(context.fake.dtype)
    axes = [k for k in range(len(gradient.shape)) if k != 1]
    total = fold("sum", lambda p: converted(gradient.at(p), inner), gradient.shape, axes, context.name)
    return TensorValue(context.fake, lambda p: converted(total(p), result))
