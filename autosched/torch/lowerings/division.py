"""Lowerings of rounded division, remainders and powers of integers."""

from __future__ import annotations

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kind

from autosched.lang import functions as fn
from autosched.lang.expr import Const, Expr
from autosched.lang.operators import binary
from autosched.torch.lowerings.pointwise import Operand, constant, converted, pointwise, types_of
from autosched.torch.lowerings.registry import LoweringContext, register
from autosched.torch.tensors import InvalidOperandError, TensorValue

aten = torch.ops.aten


def check_divisor(context: LoweringContext, a: Operand, b: Operand) -> None:
    """Check that no divisor of integers is zero.

    Raises:
        InvalidOperandError: If the divisor is the number zero.
    """
    if types_of((a, b), Kind.DEFAULT)[0].is_float:
        return
    if not isinstance(b, TensorValue):
        if b == 0:
            raise InvalidOperandError("a division of integers by zero")
        return
    bad = TensorValue(b.fake.new_empty(b.shape, dtype=torch.bool), lambda p: binary("eq", b.at(p), 0))
    context.add_check(bad, RuntimeError, "ZeroDivisionError")


def _opposite(a: Expr, b: Expr) -> Expr:
    """Whether two integers have opposite signs; zero counts as positive."""
    return (a < 0) ^ (b < 0)


def _is_not_negative(operand: Operand) -> bool:
    """Whether integers that depend on no input are 0 or more."""
    if not isinstance(operand, TensorValue):
        return operand >= 0
    constant = operand.constant
    return constant is not None and constant.numel() > 0 and bool((constant >= 0).all())


def truncated_quotient(a: Expr, b: Expr) -> Expr:
    """Return the quotient of integers, rounded towards zero."""
    quotient = a // b
    if a.dtype.kind != "i":
        return quotient
    inexact = binary("ne", a % b, 0)
    return fn.select(inexact & _opposite(a, b), quotient + constant(1, a.dtype), quotient)


def truncated_remainder(a: Expr, b: Expr) -> Expr:
    """Return the remainder with the sign of the dividend."""
    if a.dtype.is_float:
        return fn.fmod(a, b)
    remainder = a % b
    if a.dtype.kind != "i":
        return remainder
    return fn.select(binary("ne", remainder, 0) & _opposite(a, b), remainder - b, remainder)


@register(aten.div.Tensor_mode, aten.div.Scalar_mode)
def lower_div_mode(context: LoweringContext, a: Operand, b: Operand, *, rounding_mode: str | None) -> TensorValue:
    """Divide, and round down or towards zero."""
    if rounding_mode is None:
        return pointwise(context, (a, b), lambda x, y: x / y, Kind.INT_TO_FLOAT)
    check_divisor(context, a, b)
    if rounding_mode == "floor":
        return pointwise(context, (a, b), lambda x, y: x // y)
    result = types_of((a, b), Kind.DEFAULT)[1]

    if not result.is_float and _is_not_negative(a) and _is_not_negative(b):
        return pointwise(context, (a, b), lambda x, y: x // y)

    def truncated(x: Expr, y: Expr) -> Expr:
        # PyTorch rounds the quotient of float16 before it truncates.
        return fn.trunc(converted(x / y, result)) if x.dtype.is_float else truncated_quotient(x, y)

    return pointwise(context, (a, b), truncated)


@register(aten.fmod.Tensor, aten.fmod.Scalar)
def lower_fmod(context: LoweringContext, a: Operand, b: Operand) -> TensorValue:
    """Return the remainder with the sign of the dividend; of integers that are not negative an index with a range."""
    if not context.fake.dtype.is_floating_point and _is_not_negative(a) and _is_not_negative(b):
        return lower_remainder(context, a, b)
    check_divisor(context, a, b)
    return pointwise(context, (a, b), truncated_remainder)


@register(aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor)
def lower_remainder(context: LoweringContext, a: Operand, b: Operand) -> TensorValue:
    """Return the remainder with the sign of the divisor."""
    check_divisor(context, a, b)
    return pointwise(context, (a, b), lambda x, y: x % y)


def power_of_integers(base: Expr, exponent: Expr) -> Expr:
    """Return a power of integers that wraps, by squaring; of a negative exponent zero unless the base is 1 or -1."""
    dtype = base.dtype
    one, zero = constant(1, dtype), constant(0, dtype)
    fixed = int(exponent.value) if isinstance(exponent, Const) else None
    if fixed is not None and fixed < 0:
        raise InvalidOperandError("a power of integers with a negative exponent")
    bits = dtype.bits - (dtype.kind == "i") if fixed is None else fixed.bit_length()
    result, square = one, base
    for k in range(bits):
        if fixed is None:
            odd = binary("ne", (exponent >> k) & one, zero)
            result = fn.select(odd, result * square, result)
        elif fixed >> k & 1:
            result = result * square
        if k + 1 < bits:
            square = square * square
    if fixed is not None or dtype.kind != "i":
        return result
    sign = fn.select(binary("ne", exponent & one, zero), base, one)
    of_negative = fn.select(binary("eq", base, one) | binary("eq", base, -one), sign, zero)
    return fn.select(exponent < 0, of_negative, result)


@register(aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten.pow.Scalar)
def lower_pow(context: LoweringContext, a: Operand, b: Operand) -> TensorValue:
    """Power; of a small integer exponent a product."""
    if not context.fake.dtype.is_floating_point:
        return pointwise(context, (a, b), power_of_integers, Kind.BOOL_TO_LONG)
    if not isinstance(b, TensorValue) and b in (0, 0.5, 1, 2, 3):
        return pointwise(context, (a,), lambda x: _small_power(x, b))
    return pointwise(context, (a, b), fn.pow, Kind.BOOL_TO_LONG)


def _small_power(x: Expr, exponent: float) -> Expr:
    if exponent == 0:
        return constant(1, x.dtype)
    return fn.sqrt(x) if exponent == 0.5 else fn.pow(x, int(exponent))
