"""Comparison operators of the language: value, mirror image, negation, and outcome over a range of differences."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip
"""Value of ``a op b`` for two numbers."""

MIRRORED: Mapping[str, str] = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
"""The operator with ``b MIRRORED[op] a == a op b``."""

NEGATED: Mapping[str, str] = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}
"""The operator with ``a NEGATED[op] b == not (a op b)``."""

ORDERINGS = frozenset({"lt", "le", "gt", "ge"})
"""Operators that compare an order."""


def decide(op: str, lo: int, hi: int) -> bool | None:
    """Return the value of ``a op b`` for every ``a - b`` in ``[lo, hi]``; None if it is not the same for all."""
    if _always(op, lo, hi):
        return True
    return False if _always(NEGATED[op], lo, hi) else None


def _always(op: str, lo: int, hi: int) -> bool:
    match op:
        case "lt" | "le":
            return COMPARE[op](hi, 0)
        case "gt" | "ge":
            return COMPARE[op](lo, 0)
        case "eq":
            return lo == hi == 0
        case _:
            return lo > 0 or hi < 0
