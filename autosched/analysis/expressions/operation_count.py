"""Arithmetic operations of a stage."""

from __future__ import annotations

from autosched.analysis.bound_pipeline import BoundStage
from autosched.lang.expr import Binary, Call, Expr, Load, Select, Unary, children

CALL_OPERATIONS = 10


def operations(stage: BoundStage) -> int:
    """Return the arithmetic operations of one evaluation of a stage; a function call counts as ten.

    Index arithmetic does not count; shared nodes of the definition count once.
    """
    total, seen = 0, set()
    stack: list[Expr] = list(stage.values)
    while stack:
        e = stack.pop()
        if id(e) in seen or (e.weak and e.dtype.kind == "i"):
            continue
        seen.add(id(e))
        total += CALL_OPERATIONS if isinstance(e, Call) else isinstance(e, Binary | Unary | Select)
        if not isinstance(e, Load):
            stack.extend(children(e))
    return total
