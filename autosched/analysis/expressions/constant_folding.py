"""Integer arithmetic between constants, with the semantics of generated code."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

from autosched.analysis.indices.exact_integers import is_count, is_exact_integer
from autosched.lang.dtypes import DType, int32
from autosched.lang.expr import COMPARISONS, Binary, Cast, Const, Expr, Select, Unary
from autosched.lang.operators import binary

_EXACT: Mapping[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "min": min, "max": max,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "floordiv": lambda a, b: a // b if b else 0, "mod": lambda a, b: a % b if b else 0,
}  # fmt: skip


def fold(e: Expr, operands: Sequence[Expr]) -> Const | Cast | None:
    """Return the value of an integer or bool operation between constants; None for other operations.

    Weak constants are exact, typed ones wrap. Floating-point arithmetic is not folded. An integer that a floating-point
    type represents becomes a constant of that type, since division by a constant has a faster form. An exact integer
    beyond int32 stays the conversion of a weak constant, until integer widths are resolved.

    Args:
        e: The operation.
        operands: Its operands, folded.
    """
    constants = [_constant(c) for c in operands]
    folded = [c for c in constants if c is not None]
    if not operands or len(folded) < len(operands) or (e.dtype.is_float and not isinstance(e, Cast)):
        return None
    values = [int(c.value) for c in folded]
    match e:
        case Cast():
            if folded[0].weak and e.dtype == int32:
                return _exact(values[0])
            if not e.dtype.is_float:
                return _typed(values[0], e.dtype)
            return Const(float(values[0]), e.dtype) if e.dtype.rounded(values[0]) == values[0] else None
        case Unary():
            value = {"neg": -values[0], "abs": abs(values[0]), "not": ~values[0]}[e.op]
            return _exact(value) if is_exact_integer(e) else _typed(value, e.dtype, logical=True)
        case Select():
            return _chosen(operands[1] if values[0] else operands[2])
        case Binary() if e.op in COMPARISONS:
            return Const(bool(getattr(operator, e.op)(*values)), e.dtype)
        case Binary(op="shl" | "shr"):
            exact = is_exact_integer(e) and is_count(values[1], values[1], exact=is_exact_integer(e.b))
            count = values[1] if exact else values[1] % e.dtype.bits
            value = values[0] << count if e.op == "shl" else values[0] >> count
            return _exact(value) if exact else _typed(value, e.dtype)
        case Binary(weak=True):
            result = binary(e.op, *folded)
            return result if isinstance(result, Const) else None
        case Binary(op=op) if op in _EXACT:
            value = _EXACT[op](*values)
            return _exact(value) if is_exact_integer(e) else _typed(value, e.dtype)
    return None


def _constant(e: Expr) -> Const | None:
    """Return an integer or bool constant, also that of an exact integer beyond int32."""
    if isinstance(e, Cast) and isinstance(e.a, Const) and e.a.weak and e.dtype == int32 and e.a.dtype.is_int:
        return e.a
    return e if isinstance(e, Const) and not e.dtype.is_float else None


def _chosen(e: Expr) -> Const | Cast:
    assert isinstance(e, Const | Cast)
    return e


def _exact(value: int) -> Const | Cast:
    """Return an exact integer as int32, or as a conversion until its width is resolved."""
    return Const(value, int32) if int32.holds(value) else Cast(Const(value, int32, weak=True), int32)


def _typed(value: int, dtype: DType, *, logical: bool = False) -> Const:
    if dtype.kind == "b":
        return Const(bool(value & 1 if logical else value), dtype)
    return Const(dtype.wrapped(value), dtype)
