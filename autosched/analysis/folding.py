"""Integer arithmetic between constants, as generated code would do it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

from autosched.lang.dtypes import DType, int32
from autosched.lang.expr import COMPARISONS, Binary, Cast, Const, Expr, Select, Unary
from autosched.lang.operations import binary

_EXACT: Mapping[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "min": min, "max": max,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "floordiv": lambda a, b: a // b if b else 0, "mod": lambda a, b: a % b if b else 0,
}  # fmt: skip


def folded(e: Expr, operands: Sequence[Expr]) -> Const | None:
    """Return the value of an integer or bool operation between constants; None for anything else.

    Weak constants are exact, typed ones wrap. Floating-point arithmetic is left to those who run it; an integer that
    a floating-point type holds becomes its constant, as a division by a constant has a faster form.

    Args:
        e: The operation.
        operands: What its operands have become.
    """
    constants = [c for c in operands if isinstance(c, Const) and not c.dtype.is_float]
    if not operands or len(constants) < len(operands) or (e.dtype.is_float and not isinstance(e, Cast)):
        return None
    values = [int(c.value) for c in constants]
    match e:
        case Cast():
            value = int32.wrapped(values[0]) if constants[0].weak else values[0]
            if not e.dtype.is_float:
                return _typed(value, e.dtype)
            return Const(float(value), e.dtype) if e.dtype.rounded(value) == value else None
        case Unary():
            return _typed({"neg": -values[0], "abs": abs(values[0]), "not": ~values[0]}[e.op], e.dtype, logical=True)
        case Select():
            return constants[1] if values[0] else constants[2]
        case Binary() if e.op in COMPARISONS:
            return Const(bool(getattr(operator, e.op)(*values)), e.dtype)
        case Binary(op="shl" | "shr"):
            count = values[1] % e.dtype.bits
            return _typed(values[0] << count if e.op == "shl" else values[0] >> count, e.dtype)
        case Binary(weak=True):
            found = binary(e.op, *constants)
            return found if isinstance(found, Const) else None
        case Binary(op=op) if op in _EXACT:
            return _typed(_EXACT[op](*values), e.dtype)
    return None


def _typed(value: int, dtype: DType, *, logical: bool = False) -> Const:
    if dtype.kind == "b":
        return Const(bool(value & 1 if logical else value), dtype)
    return Const(dtype.wrapped(value), dtype)
