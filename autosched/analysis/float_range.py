"""Ranges of integers that come from clamped floating-point values, as in ``cast(int32, clamp(v, 0.0, 255.0))``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from autosched.lang.dtypes import DType
from autosched.lang.expr import Binary, Call, Cast, Const, Expr

_ROUNDING: Mapping[str, Callable[[float], float]] = {
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint,
}  # fmt: skip
_ARITHMETIC = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide}
Range = tuple[float, float]
EVERYTHING: Range = (-math.inf, math.inf)


def converted_range(e: Expr, target: DType) -> tuple[int, int]:
    """Return the range of a float or bool expression converted to an integer type.

    Monotone operations with constants are followed, in the type they are done in. NaN, which becomes 0, is always
    possible.
    """
    if e.dtype.kind == "b":
        return 0, 1
    lo, hi = _range(e)
    ends = [target.min_value if v < target.min_value else min(int(min(v, 2.0**64)), target.max_value) for v in (lo, hi)]
    return min(ends[0], 0), max(ends[1], 0)


def _range(e: Expr) -> Range:
    """Return the least and greatest value of a float expression that is not NaN."""
    chain: list[Expr] = []
    inner: Expr | None = e
    while inner is not None:
        chain.append(inner)
        inner = _followed(inner)
    found = EVERYTHING
    for node in reversed(chain):
        found = _applied(node, found)
    return found


def _followed(e: Expr) -> Expr | None:
    """Return the operand whose range decides that of ``e``."""
    match e:
        case Call(name=name) if name in _ROUNDING:
            return e.args[0]
        case Cast() if e.a.dtype.is_float:
            return e.a
        case Binary(op=op) if op in _ARITHMETIC or op in ("min", "max"):
            if isinstance(e.b, Const):
                return e.a
            return e.b if isinstance(e.a, Const) and op != "truediv" else None
    return None


def _applied(e: Expr, operand: Range) -> Range:
    """Return the range of ``e`` where that of the followed operand is known."""
    kind = e.dtype.numpy.type
    with np.errstate(all="ignore"):
        match e:
            case Const():
                return float(e.value), float(e.value)
            case Cast(a=a) if not a.dtype.is_float and e.dtype.is_float:
                ends = [float(kind(v)) for v in (a.dtype.min_value, a.dtype.max_value)]
            case _ if _followed(e) is None:
                return EVERYTHING
            case Call(name=name):
                ends = [float(_ROUNDING[name](v)) for v in operand]
            case Binary(op="min" | "max", a=a, b=b):
                limit = float((b if isinstance(b, Const) else a).value)  # type: ignore[attr-defined]
                ends = [min(v, limit) if e.op == "min" else max(v, limit) for v in operand]
            case Binary(op=op, a=a, b=Const(value=value)):
                ends = [float(_ARITHMETIC[op](kind(v), kind(value))) for v in operand]
            case Binary(op=op, a=Const(value=value)):
                ends = [float(_ARITHMETIC[op](kind(value), kind(v))) for v in operand]
            case _:  # a conversion between floating-point types
                ends = [float(kind(v)) for v in operand]
    return EVERYTHING if any(math.isnan(v) for v in ends) else (min(ends), max(ends))
