"""Evaluation of integer expressions in a narrower type.

    int32(a) + (int32(b) << 1)   ->   uint16(a) + (uint16(b) << 1)     of which the low 16 bits are needed

Sums, products and bitwise operations have the same low bits in any width. Minima, maxima and right shifts have them
where the narrower type holds their operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autosched.analysis.expressions.interval_arithmetic import ValueRange
from autosched.lang.dtypes import DType, int8, int16, int32, uint8, uint16, uint32
from autosched.lang.expr import Binary, Cast, Const, Expr, Select, Unary, postorder

_NARROW = (uint8, int8, uint16, int16, uint32, int32)
_MODULAR = frozenset({"add", "sub", "mul", "and", "or", "xor"})
_SHORTEST_PRODUCT = 16
"""Bits of the narrowest products: vectors of bytes have none."""
RangeOf = Callable[[Expr], ValueRange]


def narrowest_type(values: ValueRange, dtype: DType) -> DType:
    """Return the narrowest integer type that holds a range; ``dtype`` itself unless one has fewer bits."""
    if not dtype.is_int:
        return dtype
    return next((d for d in _NARROW if d.bits < dtype.bits and values.fits(d)), dtype)


def evaluate_truncated(e: Expr, dtype: DType, range_of: RangeOf) -> Expr:
    """Return an expression of a narrower type with the low bits of an integer expression.

    Args:
        e: An expression of a strong integer type, at least as wide.
        dtype: The narrower integer type.
        range_of: Returns the range of a part of ``e``.
    """

    def operands(part: Expr) -> Sequence[Expr]:
        return _operands(part, dtype, range_of)

    truncated: dict[int, Expr] = {}
    for part in postorder([e], truncated, operands):
        truncated[id(part)] = _rebuilt(part, [truncated[id(c)] for c in operands(part)], dtype, range_of)
    return truncated[id(e)]


def _operands(e: Expr, dtype: DType, range_of: RangeOf) -> Sequence[Expr]:
    """Return the operands that are evaluated in the narrower type; none if the result is converted."""
    if e.weak or not e.dtype.is_int or e.dtype.bits < dtype.bits:
        return ()
    match e:
        case Cast(a=a) if a.dtype.is_int and not a.weak and a.dtype.bits >= dtype.bits:
            return (a,)
        case Binary(op="mul") if dtype.bits < _SHORTEST_PRODUCT:
            return ()
        case Binary(op=op) if op in _MODULAR:
            return e.a, e.b
        case Unary(op="neg" | "not"):
            return (e.a,)
        case Select():
            return e.t, e.f
        case Binary(op="shl", b=Const(value=count)) if 0 <= count < dtype.bits:
            return (e.a,)
        case Binary(op="shr", b=Const(value=count)) if 0 <= count < dtype.bits and range_of(e.a).fits(dtype):
            return (e.a,)
        case Binary(op="min" | "max") if range_of(e.a).fits(dtype) and range_of(e.b).fits(dtype):
            return e.a, e.b
    return ()


def _rebuilt(e: Expr, parts: Sequence[Expr], dtype: DType, range_of: RangeOf) -> Expr:
    match e:
        case Const():
            return Const(dtype.wrapped(int(e.value)), dtype)
        case Cast() if parts:
            return parts[0]
        case Select() if parts:
            return Select(e.cond, parts[0], parts[1], dtype)
        case Unary() if parts:
            return Unary(e.op, parts[0], dtype)
        case Binary(op="shl" | "shr", b=Const(value=count)) if parts:
            return Binary(e.op, parts[0], Const(count, dtype), dtype)
        case Binary() if parts:
            return Binary(e.op, parts[0], parts[1], dtype)
        case Cast(a=a) if not a.weak and _same_when_narrower(e, dtype, range_of):
            return a if a.dtype == dtype else Cast(a, dtype)
    if e.dtype == dtype:
        return e
    between = _type_between(e, dtype, range_of)
    return Cast(e if between == e.dtype else evaluate_truncated(e, between, range_of), dtype)


def _type_between(e: Expr, dtype: DType, range_of: RangeOf) -> DType:
    """Return the narrowest type in which an operation may be evaluated before its conversion."""
    match e:
        case Binary(op="mul") if dtype.bits < _SHORTEST_PRODUCT < e.dtype.bits:
            return uint16
        case Binary(op="shr", b=Const(value=count)):
            least = narrowest_type(range_of(e.a), e.dtype)
            return least if dtype.bits < least.bits and 0 <= count < least.bits else e.dtype
        case Binary(op="min" | "max"):
            least = narrowest_type(range_of(e.a).hull(range_of(e.b)), e.dtype)
            return least if least.bits > dtype.bits else e.dtype
    return e.dtype


def _same_when_narrower(e: Cast, dtype: DType, range_of: RangeOf) -> bool:
    """Whether a conversion may go to the narrower type at once."""
    if e.a.dtype.is_float:
        values = range_of(e.a)
        return values.fits(e.dtype) and values.fits(dtype)  # neither conversion saturates
    return e.dtype.bits >= dtype.bits
