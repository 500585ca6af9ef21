"""Lowerings of elementary functions, activations, shifts and other elementwise operators beside arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kind

from autosched.lang import functions as fn
from autosched.lang.dtypes import bool_
from autosched.lang.expr import Const, Expr, ExprLike
from autosched.lang.operators import binary
from autosched.torch.lowerings.pointwise import (
    Operand,
    broadcast,
    constant,
    converted,
    operand_at,
    pointwise,
)
from autosched.torch.lowerings.registry import LoweringContext, register
from autosched.torch.tensors import Point, TensorValue, UnsupportedError, element_type

aten = torch.ops.aten


def _elementwise(*operators: Any, compute: Callable[..., ExprLike], kind: Kind = Kind.DEFAULT) -> None:
    @register(*operators)
    def lower(context: LoweringContext, *operands: Operand) -> TensorValue:
        return pointwise(context, operands, compute, kind)


for _name in ("acosh", "asinh", "atanh", "cosh", "erf", "erfc", "exp2", "expm1", "log10", "log1p", "log2", "sinh"):
    _elementwise(getattr(aten, _name).default, compute=getattr(fn, _name), kind=Kind.INT_TO_FLOAT)
_elementwise(aten.copysign.Tensor, aten.copysign.Scalar, compute=fn.copysign, kind=Kind.INT_TO_FLOAT)


def _sign_bit(a: Expr) -> Expr:
    if a.dtype.is_float:
        return fn.copysign(constant(1, a.dtype), a) < 0
    return a < 0 if a.dtype.kind == "i" else Const(False, bool_)


def _angle(a: Expr) -> Expr:
    """Return 0 or pi; a NaN stays."""
    angle = fn.select(a < 0, constant(math.pi, a.dtype), constant(0, a.dtype))
    return fn.select(binary("ne", a, a), a, angle)


def _number_before_nan(extreme: Callable[[Expr, Expr], Expr], of_bools: str) -> Callable[[Expr, Expr], Expr]:
    def compute(a: Expr, b: Expr) -> Expr:
        if a.dtype == bool_:
            return binary(of_bools, a, b)
        if not a.dtype.is_float:
            return extreme(a, b)
        return fn.select(binary("ne", a, a), b, fn.select(binary("ne", b, b), a, extreme(a, b)))

    return compute


_elementwise(aten.signbit.default, compute=_sign_bit, kind=Kind.ALWAYS_BOOL)
_elementwise(aten.angle.default, compute=_angle, kind=Kind.INT_TO_FLOAT)
_elementwise(aten.fmax.default, compute=_number_before_nan(fn.max, "or"))
_elementwise(aten.fmin.default, compute=_number_before_nan(fn.min, "and"))
_elementwise(aten.conj_physical.default, aten.positive.default, compute=lambda a: a)


def _shift_left(a: Expr, count: Expr) -> Expr:
    """Shift; by a count outside of the width to zero."""
    shifted, inside = a << count, count < a.dtype.bits
    return fn.select(inside & (count >= 0) if a.dtype.kind == "i" else inside, shifted, constant(0, a.dtype))


def _shift_right(a: Expr, count: Expr) -> Expr:
    """Shift with the sign; a count outside of the width leaves nothing but the sign."""
    inside = count < a.dtype.bits
    if a.dtype.kind == "i":
        return fn.select(inside & (count >= 0), a >> count, a >> constant(a.dtype.bits - 1, a.dtype))
    return fn.select(inside, a >> count, constant(0, a.dtype))


_OVERLOADS = ("Tensor", "Tensor_Scalar", "Scalar_Tensor")
_elementwise(*(getattr(aten.bitwise_left_shift, o) for o in _OVERLOADS), compute=_shift_left)
_elementwise(*(getattr(aten.bitwise_right_shift, o) for o in _OVERLOADS), compute=_shift_right)
_elementwise(aten.bitwise_and.Scalar_Tensor, compute=lambda a, b: binary("and", a, b))
_elementwise(aten.bitwise_or.Scalar_Tensor, compute=lambda a, b: binary("or", a, b))
_elementwise(aten.bitwise_xor.Scalar_Tensor, compute=lambda a, b: binary("xor", a, b))


@register(aten.ldexp.Tensor)
def lower_ldexp(context: LoweringContext, a: TensorValue, exponent: TensorValue) -> TensorValue:
    """Multiply by a power of 2."""
    of_power = element_type(torch.result_type(2.0, exponent.fake))
    result = element_type(context.fake.dtype)

    def at(point: Point) -> Expr:
        power = fn.exp2(operand_at(exponent, point, of_power))
        return operand_at(a, point, result) * converted(power, result)

    return TensorValue(context.fake, at)


@register(aten.round.decimals)
def lower_round_decimals(context: LoweringContext, a: TensorValue, *, decimals: int) -> TensorValue:
    """Round half to even at a decimal place; integers stay."""

    def compute(x: Expr) -> Expr:
        if not x.dtype.is_float:
            if decimals:
                raise UnsupportedError("integers rounded at a decimal place")
            return x
        scale = constant(10.0 ** abs(decimals), x.dtype)
        return fn.round(x / scale) * scale if decimals < 0 else fn.round(x * scale) / scale if decimals else fn.round(x)

    return pointwise(context, (a,), compute)


@register(aten.elu.default)
def lower_elu(
    context: LoweringContext, a: TensorValue, alpha: float = 1, scale: float = 1, input_scale: float = 1
) -> TensorValue:
    """Return the exponential linear unit."""

    def compute(x: Expr) -> Expr:
        below = fn.expm1(x * constant(input_scale, x.dtype)) * constant(alpha * scale, x.dtype)
        return fn.select(x < 0, below, x * constant(scale, x.dtype))

    return pointwise(context, (a,), compute)


@register(aten.gelu.default)
def lower_gelu(context: LoweringContext, a: TensorValue, *, approximate: str = "none") -> TensorValue:
    """Return the Gaussian error linear unit, exactly or by a hyperbolic tangent."""

    def compute(x: Expr) -> Expr:
        half, one = constant(0.5, x.dtype), constant(1, x.dtype)
        if approximate == "none":
            return half * x * (one + fn.erf(x * constant(math.sqrt(0.5), x.dtype)))
        inner = x + constant(0.044715, x.dtype) * x * x * x
        return half * x * (one + fn.tanh(constant(math.sqrt(2 / math.pi), x.dtype) * inner))

    return pointwise(context, (a,), compute)


@register(aten.leaky_relu.default)
def lower_leaky_relu(context: LoweringContext, a: TensorValue, slope: float = 0.01) -> TensorValue:
    """Scale negative elements."""
    return pointwise(context, (a,), lambda x: fn.select(x > 0, x, x * constant(slope, x.dtype)))


@register(aten.hardtanh.default)
def lower_hardtanh(context: LoweringContext, a: TensorValue, low: float = -1, high: float = 1) -> TensorValue:
    """Clamp between two numbers."""
    return pointwise(context, (a,), lambda x: fn.clamp(x, constant(low, x.dtype), constant(high, x.dtype)))


@register(aten.copy.default)
def lower_copy(context: LoweringContext, a: TensorValue, source: TensorValue, *_: Any) -> TensorValue:
    """Return the elements of a source in the shape, strides and type of a tensor."""
    result = element_type(context.fake.dtype)
    return TensorValue(context.fake, lambda point: converted(broadcast(source, point), result))
