"""Lowerings of elementwise operators, with PyTorch's promotion of types."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kind
from torch._prims_common import elementwise_dtypes

from autosched.lang import functions as fn
from autosched.lang.dtypes import DType, bool_, float32
from autosched.lang.expr import Const, Expr, ExprLike
from autosched.lang.operators import as_expr, binary, typed_const, unary
from autosched.torch.lowerings.registry import LoweringContext, register
from autosched.torch.tensors import Point, TensorValue, UnsupportedError, element_type

aten = torch.ops.aten

Operand = TensorValue | int | float | bool


def broadcast(value: TensorValue, point: Point) -> Expr:
    """Return the element that broadcasting gives at a point of the result."""
    own = point[len(point) - len(value.shape) :]
    return value.at(tuple(0 if n == 1 else i for i, n in zip(own, value.shape, strict=True)))


def operand_at(operand: Operand, point: Point, dtype: DType) -> Expr:
    """Return an operand at a point of the result, converted to the type of the computation."""
    if isinstance(operand, TensorValue):
        return converted(broadcast(operand, point), dtype)
    return constant(operand, dtype)


def converted(e: Expr, dtype: DType) -> Expr:
    """Return a value in another type."""
    return e if not e.weak and e.dtype == dtype else fn.cast(dtype, e)


def constant(value: int | float | bool, dtype: DType) -> Expr:
    """Return a Python number in a type, as PyTorch converts scalars: integers wrap."""
    if isinstance(value, torch.SymInt | torch.SymFloat | complex):
        raise UnsupportedError(f"a scalar of type {type(value).__name__}")
    if dtype.is_float:
        return Const(dtype.rounded(value), dtype)
    if dtype.kind == "b":
        return Const(bool(value), dtype)
    if isinstance(value, float) and not math.isfinite(value):
        raise UnsupportedError(f"the scalar {value} in {dtype}")
    return typed_const(dtype.wrapped(int(value)), dtype)


def types_of(operands: Sequence[Operand], kind: Kind) -> tuple[DType, DType]:
    """Return the types of an operation's computation and of its result."""
    compute, result = elementwise_dtypes(
        *(o.fake if isinstance(o, TensorValue) else o for o in operands), type_promotion_kind=kind
    )
    return element_type(compute), element_type(result)


def pointwise(
    context: LoweringContext, operands: Sequence[Operand], compute: Callable[..., ExprLike], kind: Kind = Kind.DEFAULT
) -> TensorValue:
    """Return an elementwise operation.

    Args:
        context: The context of the lowering.
        operands: Tensors and numbers, which are broadcast.
        compute: The operation on expressions of the type of the computation.
        kind: PyTorch's kind of promotion.
    """
    inner, _ = types_of(operands, kind)
    result = element_type(context.fake.dtype)

    def at(point: Point) -> Expr:
        return converted(as_expr(compute(*(operand_at(o, point, inner) for o in operands))), result)

    return TensorValue(context.fake, at)


def _simple(operator: Any, compute: Callable[..., ExprLike], kind: Kind = Kind.DEFAULT) -> None:
    @register(operator)
    def lower(context: LoweringContext, *operands: Operand) -> TensorValue:
        return pointwise(context, operands, compute, kind)


def _logical(e: Expr) -> Expr:
    return converted(e, bool_)


def _add(a: Expr, b: Expr) -> Expr:
    return a | b if a.dtype == bool_ else a + b


def _multiply(a: Expr, b: Expr) -> Expr:
    return a & b if a.dtype == bool_ else a * b


def _minimum(a: Expr, b: Expr) -> Expr:
    return a & b if a.dtype == bool_ else fn.min(a, b)


def _maximum(a: Expr, b: Expr) -> Expr:
    return a | b if a.dtype == bool_ else fn.max(a, b)


@register(aten.add.Tensor, aten.add.Scalar)
def lower_add(context: LoweringContext, a: Operand, b: Operand, alpha: float = 1) -> TensorValue:
    """Add, the second operand times ``alpha``."""
    return pointwise(context, (a, b), _with_multiple(_add, alpha))


@register(aten.sub.Tensor, aten.sub.Scalar)
def lower_sub(context: LoweringContext, a: Operand, b: Operand, alpha: float = 1) -> TensorValue:
    """Subtract the second operand times ``alpha``."""
    return pointwise(context, (a, b), _with_multiple(lambda x, y: x - y, alpha))


@register(aten.rsub.Scalar)
def lower_rsub(context: LoweringContext, a: Operand, b: Operand, alpha: float = 1) -> TensorValue:
    """Subtract the first operand times ``alpha`` from the second."""
    return pointwise(context, (b, a), _with_multiple(lambda x, y: x - y, alpha))


def _with_multiple(combine: Callable[[Expr, Expr], Expr], alpha: float) -> Callable[[Expr, Expr], Expr]:
    """Return an operation on a number and a multiple of another; reduced floats are rounded once, as by PyTorch."""

    def compute(x: Expr, y: Expr) -> Expr:
        if alpha == 1:
            return combine(x, y)
        if x.dtype.is_reduced_float:
            x, y = converted(x, float32), converted(y, float32)
        return combine(x, _multiply(y, constant(alpha, y.dtype)))

    return compute


def _truth(kind: str) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: binary(kind, a, b)


_simple(aten.mul.Tensor, _multiply)
_simple(aten.mul.Scalar, _multiply)
_simple(aten.minimum.default, _minimum)
_simple(aten.maximum.default, _maximum)
_simple(aten.neg.default, lambda a: -a)
_simple(aten.abs.default, lambda a: a if a.dtype == bool_ else fn.abs(a))

for _name in ("eq", "ne"):
    for _overload in ("Tensor", "Scalar"):
        _simple(getattr(getattr(aten, _name), _overload), _truth(_name), Kind.ALWAYS_BOOL)


def _ordered(kind: str) -> Callable[[Expr, Expr], Expr]:
    """Return a comparison; false is less than true."""

    def compare(a: Expr, b: Expr) -> Expr:
        if a.dtype != bool_:
            return binary(kind, a, b)
        return {"lt": ~a & b, "le": ~a | b, "gt": a & ~b, "ge": a | ~b}[kind]

    return compare


for _name in ("lt", "le", "gt", "ge"):
    for _overload in ("Tensor", "Scalar"):
        _simple(getattr(getattr(aten, _name), _overload), _ordered(_name), Kind.ALWAYS_BOOL)


def _of_floats(function: Callable[[Expr], Expr]) -> Callable[[Expr], Expr]:
    """Return a rounding function, which leaves integers as they are."""
    return lambda e: function(e) if e.dtype.is_float else e


_INT_TO_FLOAT = Kind.INT_TO_FLOAT
for _name in ("sqrt", "exp", "log", "sin", "cos", "tan", "tanh", "atan", "asin", "acos"):
    _simple(getattr(aten, _name).default, getattr(fn, _name), _INT_TO_FLOAT)
_simple(aten.atan2.default, fn.atan2, _INT_TO_FLOAT)
_simple(aten.hypot.default, fn.hypot)
_simple(aten.rsqrt.default, lambda a: 1 / fn.sqrt(a), _INT_TO_FLOAT)
_simple(aten.reciprocal.default, lambda a: 1 / a, _INT_TO_FLOAT)
_simple(aten.sigmoid.default, lambda a: 1 / (1 + fn.exp(-a)), _INT_TO_FLOAT)
for _name in ("floor", "ceil", "trunc", "round"):
    _simple(getattr(aten, _name).default, _of_floats(getattr(fn, _name)))

_simple(aten.logical_and.default, lambda a, b: _logical(a) & _logical(b), Kind.ALWAYS_BOOL)
_simple(aten.logical_or.default, lambda a, b: _logical(a) | _logical(b), Kind.ALWAYS_BOOL)
_simple(aten.logical_xor.default, lambda a, b: _logical(a) ^ _logical(b), Kind.ALWAYS_BOOL)
_simple(aten.logical_not.default, lambda a: ~_logical(a), Kind.ALWAYS_BOOL)
_simple(aten.isnan.default, lambda a: binary("ne", a, a), Kind.ALWAYS_BOOL)
_simple(
    aten.isinf.default, lambda a: fn.abs(a) >= math.inf if a.dtype.is_float else Const(False, bool_), Kind.ALWAYS_BOOL
)
for _name, _symbol in (("and", "and"), ("or", "or"), ("xor", "xor")):
    for _overload in ("Tensor", "Scalar"):
        _simple(getattr(getattr(aten, f"bitwise_{_name}"), _overload), _truth(_symbol))
_simple(aten.bitwise_not.default, lambda a: unary("not", a))
_simple(aten.relu.default, lambda a: fn.max(a, constant(0, a.dtype)))
_simple(aten.sign.default, lambda a: a if a.dtype == bool_ else _sign(a))


def _sign(a: Expr) -> Expr:
    one, zero = constant(1, a.dtype), constant(0, a.dtype)
    positive = fn.select(a > zero, one, zero)
    return positive if a.dtype.kind == "u" else fn.select(a < zero, -one, positive)


@register(aten.div.Tensor, aten.div.Scalar)
def lower_div(context: LoweringContext, a: Operand, b: Operand) -> TensorValue:
    """True division."""
    return pointwise(context, (a, b), lambda x, y: x / y, _INT_TO_FLOAT)


@register(aten.where.self)
def lower_where(context: LoweringContext, condition: TensorValue, a: Operand, b: Operand) -> TensorValue:
    """Choose between two tensors."""
    result = element_type(context.fake.dtype)

    def at(point: Point) -> Expr:
        chosen = converted(broadcast(condition, point), bool_)
        return fn.select(chosen, operand_at(a, point, result), operand_at(b, point, result))

    return TensorValue(context.fake, at)


@register(aten.clamp.default, aten.clamp.Tensor)
def lower_clamp(
    context: LoweringContext, a: Operand, low: Operand | None = None, high: Operand | None = None
) -> TensorValue:
    """Clamp between bounds, of which one may be missing."""
    bounds = [b for b in (low, high) if b is not None]

    def clamp(x: Expr, *limits: Expr) -> Expr:
        given = list(limits)
        if low is not None:
            x = _maximum(x, given.pop(0))
        return _minimum(x, given.pop(0)) if high is not None else x

    return pointwise(context, (a, *bounds), clamp)


@register(aten._to_copy.default, torch.ops.prims.convert_element_type.default)
def lower_to_copy(context: LoweringContext, a: TensorValue, *_: Any, **__: Any) -> TensorValue:
    """Convert to another type."""
    result = element_type(context.fake.dtype)
    if result == a.dtype:
        return copied(context, a)
    return TensorValue(context.fake, lambda point: converted(a.at(point), result))


@register(aten.clone.default, aten.alias.default, aten.detach.default, aten.lift_fresh_copy.default)
def lower_clone(context: LoweringContext, a: TensorValue, **_: Any) -> TensorValue:
    """Copy: values do not change."""
    return copied(context, a)


def copied(context: LoweringContext, a: TensorValue) -> TensorValue:
    """Return a tensor with the strides of the result."""
    return TensorValue(context.fake, a.at, a.source, a.constant, a.is_view)


@register(aten.full.default, aten.full_like.default)
def lower_full(context: LoweringContext, _: Any, value: float, **__: Any) -> TensorValue:
    """Fill with one number."""
    filled = constant(value, element_type(context.fake.dtype))
    return TensorValue(context.fake, lambda point: filled)


@register(aten.scalar_tensor.default)
def lower_scalar_tensor(context: LoweringContext, value: float, **_: Any) -> TensorValue:
    """Make a tensor of a number."""
    return lower_full(context, None, value)


@register(aten.arange.start_step)
def lower_arange(context: LoweringContext, start: float, end: float, step: float = 1, **_: Any) -> TensorValue:
    """Count from a start by a step.

    Integers start and step by integers, whatever the arguments; of reduced floats the result is rounded once.
    """
    dtype = element_type(context.fake.dtype)
    if dtype.is_int:
        start, step = int(start), int(step)

    def at(point: Point) -> Expr:
        (i,) = (as_expr(p) for p in point)
        if isinstance(start, int) and isinstance(step, int):
            return fn.cast(dtype, i * step + start)
        wide = float32 if dtype.is_reduced_float else dtype
        return converted(start + converted(i, wide) * step, dtype)

    return TensorValue(context.fake, at)


@register(torch.ops.prims.iota.default)
def lower_iota(context: LoweringContext, length: int, *, start: int, step: int, **_: Any) -> TensorValue:
    """Count integers from a start by a step."""
    return lower_arange(context, start, start + length * step, step)
