"""Interval arithmetic: the range of an operation's value from those of its operands.

Ranges of floating-point values hold whether or not products and sums are contracted: those of products are one unit in
the last place wider, so that they contain the products before rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from autosched.analysis.indices.bit_ranges import bitwise_range, shift_range
from autosched.lang.dtypes import DType
from autosched.lang.expr import Binary, Call, Cast, Const, Expr, Select, Unary, children

ROUNDING: Mapping[str, Callable[[Any], Any]] = {
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint,
}  # fmt: skip
"""Calls that round to an integer, as NumPy's functions."""
_FLOAT_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide,
}  # fmt: skip


class ValueRange(NamedTuple):
    """Inclusive range of a value; integers and conditions have integer ends.

    Attributes:
        lo: Least value.
        hi: Greatest value.
        nan: Whether it may be NaN instead.
    """

    lo: float
    hi: float
    nan: bool = False

    def fits(self, dtype: DType) -> bool:
        """Return whether an integer type holds every value, after truncation."""
        return not self.nan and dtype.min_value - 1 < self.lo and self.hi < dtype.max_value + 1

    def hull(self, other: ValueRange) -> ValueRange:
        """Return the least range that contains both."""
        return ValueRange(min(self.lo, other.lo), max(self.hi, other.hi), self.nan or other.nan)


def type_range(dtype: DType) -> ValueRange:
    """Return the range of a type."""
    if dtype.is_float:
        return ValueRange(-math.inf, math.inf, True)
    return ValueRange(dtype.min_value, dtype.max_value)


def range_operands(e: Expr) -> Sequence[Expr]:
    """Return the operands on whose ranges that of an expression depends."""
    match e:
        case Unary() | Binary() | Cast() | Call():
            return children(e)
        case Select():
            return e.t, e.f
    return ()


def operation_range(e: Expr, operands: Sequence[ValueRange]) -> ValueRange:
    """Return the range of an expression other than a variable or load.

    Args:
        e: The expression.
        operands: Ranges of `range_operands`.
    """
    found = _float_range(e, operands) if e.dtype.is_float else integer_range(e, operands)
    if found is None:
        return type_range(e.dtype)
    if e.dtype.is_float or e.weak or found.fits(e.dtype):
        return found
    return type_range(e.dtype)  # it may wrap


def integer_range(e: Expr, operands: Sequence[ValueRange]) -> ValueRange | None:
    """Return the exact range of an integer or condition, which may leave its type; None if unknown.

    Args:
        e: The expression, no variable and no load.
        operands: Ranges of `range_operands`.
    """
    match e:
        case Const():
            return ValueRange(int(e.value), int(e.value))
        case _ if e.dtype.kind == "b":
            return None
        case Select():
            return operands[0].hull(operands[1])
        case Cast() if e.a.dtype.is_float:
            return _truncated(operands[0], e.dtype)
        case Cast():
            return operands[0]
        case Unary(op="neg"):
            return ValueRange(-operands[0].hi, -operands[0].lo)
        case Unary(op="not"):
            top = e.dtype.max_value if e.dtype.kind == "u" else -1
            return ValueRange(top - operands[0].hi, top - operands[0].lo)
        case Unary(op="abs"):
            return _magnitude(operands[0])
        case Binary():
            return _integer_binary(e, *operands)
    return None


def _integer_binary(e: Binary, a: ValueRange, b: ValueRange) -> ValueRange | None:
    p, q = ((int(r.lo), int(r.hi)) for r in (a, b))
    match e.op:
        case "add":
            return ValueRange(a.lo + b.lo, a.hi + b.hi)
        case "sub":
            return ValueRange(a.lo - b.hi, a.hi - b.lo)
        case "mul":
            return _ends([x * y for x in p for y in q])
        case "min":
            return ValueRange(min(a.lo, b.lo), min(a.hi, b.hi))
        case "max":
            return ValueRange(max(a.lo, b.lo), max(a.hi, b.hi))
        case "floordiv" if q[0] > 0:
            return _ends([x // y for x in p for y in q])
        case "mod" if q[0] > 0:
            return ValueRange(0, min(p[1], q[1] - 1) if p[0] >= 0 else q[1] - 1)
        case "and" | "or" | "xor":
            return ValueRange(*bitwise_range(e.op, p, q))
        case "shl" | "shr" if not e.weak or 0 <= q[0] <= q[1] < e.dtype.bits:
            return ValueRange(*shift_range(e.op, p, q, e.dtype.bits))
    return None


def _float_range(e: Expr, operands: Sequence[ValueRange]) -> ValueRange | None:
    """Return the range of a floating-point value; None if unknown."""
    number: Callable[[float], Any] = e.dtype.scalar
    with np.errstate(all="ignore"):
        match e:
            case Const():
                value = float(e.value)
                return None if math.isnan(value) else ValueRange(value, value)
            case Cast() if e.a.dtype.is_float:
                return _ends([float(number(v)) for v in operands[0][:2]], operands[0].nan)
            case Cast():
                return _ends([e.dtype.rounded(int(v)) for v in operands[0][:2]])
            case Select():
                return operands[0].hull(operands[1])
            case Unary(op="neg"):
                return ValueRange(-operands[0].hi, -operands[0].lo, operands[0].nan)
            case Unary(op="abs"):
                return _magnitude(operands[0])
            case Call(name=name) if name in ROUNDING:
                return _ends([float(ROUNDING[name](v)) for v in operands[0][:2]], operands[0].nan)
            case Binary(op="min" | "max" as op):
                return _extreme(min if op == "min" else max, *operands)
            case Binary(op=op) if op in _FLOAT_OPERATIONS:
                return _float_binary(op, operands[0], operands[1], number)
    return None


def _float_binary(op: str, a: ValueRange, b: ValueRange, number: Callable[[float], Any]) -> ValueRange | None:
    if a.nan or b.nan or any(math.isinf(v) for v in (*a[:2], *b[:2])):
        return None
    if op == "truediv" and b.lo <= 0 <= b.hi:
        return None
    pairs = [(a.lo, b.hi), (a.hi, b.lo)] if op == "sub" else [(a.lo, b.lo), (a.hi, b.hi)]
    if op in ("mul", "truediv"):
        pairs = [(x, y) for x in a[:2] for y in b[:2]]
    ends = [_FLOAT_OPERATIONS[op](number(x), number(y)) for x, y in pairs]
    lo, hi = min(ends), max(ends)
    if op == "mul":  # the exact products, which are not negative where no factor is
        lo, hi = (v if v == 0 else np.nextafter(v, number(end)) for v, end in ((lo, -math.inf), (hi, math.inf)))
    found = ValueRange(float(lo), float(hi))
    return found if math.isfinite(found.lo) and math.isfinite(found.hi) else None


def _extreme(pick: Callable[[float, float], float], a: ValueRange, b: ValueRange) -> ValueRange:
    """Return the range of a minimum or maximum; beside NaN, it may be the other operand."""
    found = ValueRange(pick(a.lo, b.lo), pick(a.hi, b.hi), a.nan or b.nan)
    found = found.hull(ValueRange(b.lo, b.hi)) if a.nan else found
    return found.hull(ValueRange(a.lo, a.hi)) if b.nan else found


def _magnitude(a: ValueRange) -> ValueRange:
    ends = [abs(a.lo), abs(a.hi), *([0] if a.lo <= 0 <= a.hi else [])]
    return ValueRange(min(ends), max(ends), a.nan)


def _truncated(a: ValueRange, dtype: DType) -> ValueRange:
    """Return the range of a conversion to an integer type: truncated and saturated, NaN gives 0."""
    lo, hi = (
        dtype.min_value if v <= dtype.min_value else dtype.max_value if v >= dtype.max_value else int(v) for v in a[:2]
    )
    return ValueRange(lo, hi).hull(ValueRange(0, 0)) if a.nan else ValueRange(lo, hi)


def _ends(values: Sequence[float], nan: bool = False) -> ValueRange | None:
    if any(math.isnan(v) for v in values):
        return None
    return ValueRange(min(values), max(values), nan)
