"""Shifted indices: a coordinate plus a constant."""

from __future__ import annotations

from autosched.lang.dtypes import int32
from autosched.lang.expr import Binary, Const, Expr, Var


def shift_of(e: Expr) -> tuple[str, int] | None:
    """Return the Var's name and the constant of ``v``, ``v + c``, ``c + v`` or ``v - c``; None for other expressions.

    Only exact integers count, which do not wrap.
    """
    if isinstance(e, Var):
        return e.name, 0
    if not (isinstance(e, Binary) and e.weak and e.op in ("add", "sub")):
        return None
    if e.op == "add" and isinstance(e.a, Const):
        inner, constant, sign = shift_of(e.b), e.a, 1
    elif isinstance(e.b, Const):
        inner, constant, sign = shift_of(e.a), e.b, 1 if e.op == "add" else -1
    else:
        return None
    if inner is None or not isinstance(constant.value, int):
        return None
    return inner[0], inner[1] + sign * constant.value


def shifted(v: Var, distance: int) -> Expr:
    """Return a coordinate plus a constant, in the form that users write."""
    if not distance:
        return v
    op = "add" if distance > 0 else "sub"
    return Binary(op, v, Const(abs(distance), int32, weak=True), int32, weak=True)
