"""Ranges of integers converted from floating-point values, as in ``cast(int32, clamp(v, 0.0, 255.0))``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from autosched.lang.dtypes import DType
from autosched.lang.expr import Binary, Call, Cast, Const, Expr, Select, Unary, postorder

_ROUNDING: Mapping[str, Callable[[float], float]] = {
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint,
}  # fmt: skip
_ARITHMETIC = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "min": np.minimum, "max": np.maximum,
}  # fmt: skip
Range = tuple[float, float]
Integers = tuple[int, int]
EVERYTHING: Range = (-math.inf, math.inf)


def converted_range(
    e: Expr,
    target: DType,
    integers: Mapping[int, Integers] = MappingProxyType({}),
    floats: Mapping[int, Range] = MappingProxyType({}),
) -> Integers:
    """Return the range of a float or bool expression converted to an integer type.

    Covers arithmetic, minima, maxima, rounding and selects. NaN, which becomes 0, is always possible.

    Args:
        e: The expression.
        target: The integer type.
        integers: Ranges of `converted_integers` by ``id``; by default those of their types.
        floats: Ranges by ``id`` of floating-point operands where they are no NaN.
    """
    if e.dtype.kind == "b":
        return 0, 1
    ranges: dict[int, Range] = {}
    for node in postorder([e], ranges, _range_operands):
        low, high = _node_range(node, [ranges[id(c)] for c in _range_operands(node)], integers)
        lo, hi = floats.get(id(node), EVERYTHING)
        ranges[id(node)] = (max(low, lo), min(high, hi)) if max(low, lo) <= min(high, hi) else (low, high)
    lo, hi = ranges[id(e)]
    ends = [target.min_value if v < target.min_value else min(int(min(v, 2.0**64)), target.max_value) for v in (lo, hi)]
    return min(ends[0], 0), max(ends[1], 0)


def converted_integers(e: Expr) -> list[Expr]:
    """Return the integers on whose ranges that of a float expression depends."""
    integers: list[Expr] = []
    seen: dict[int, Expr] = {}
    for node in postorder([e], seen, _range_operands):
        seen[id(node)] = node
        if isinstance(node, Cast) and node.dtype.is_float and node.a.dtype.is_int:
            integers.append(node.a)
    return integers


def _range_operands(e: Expr) -> Sequence[Expr]:
    """Return the operands on whose ranges that of ``e`` depends."""
    match e:
        case Call(name=name) if name in _ROUNDING:
            return e.args
        case Cast() | Unary() if e.a.dtype.is_float:
            return (e.a,)
        case Binary(op=op) if op in _ARITHMETIC:
            return e.a, e.b
        case Select():
            return e.t, e.f
    return ()


def _node_range(e: Expr, operands: Sequence[Range], integers: Mapping[int, Integers]) -> Range:
    """Return the range of ``e`` from those of its operands.

    The ends are computed in the type of the operation, since rounding is monotone.
    """
    kind = e.dtype.scalar
    with np.errstate(all="ignore"):
        match e:
            case Const():
                return float(e.value), float(e.value)
            case Cast(a=a) if not a.dtype.is_float and e.dtype.is_float:
                ends = [e.dtype.rounded(v) for v in integers.get(id(a), (a.dtype.min_value, a.dtype.max_value))]
            case _ if not operands:
                return EVERYTHING
            case Call(name=name):
                ends = [float(_ROUNDING[name](v)) for v in operands[0]]
            case Binary(op="truediv") if operands[1][0] <= 0 <= operands[1][1]:
                return EVERYTHING
            case Binary(op=op):
                ends = [float(_ARITHMETIC[op](kind(p), kind(q))) for p in operands[0] for q in operands[1]]
            case Unary(op=op):
                lo, hi = operands[0]
                ends = [-lo, -hi] if op == "neg" else [abs(lo), abs(hi), *([0.0] if lo <= 0 <= hi else [])]
            case Select():
                ends = [v for r in operands for v in r]
            case _:  # a conversion between floating-point types
                ends = [float(kind(v)) for v in operands[0]]
    return EVERYTHING if any(math.isnan(v) for v in ends) else (min(ends), max(ends))
