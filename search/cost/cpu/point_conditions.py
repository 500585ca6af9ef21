"""Conditions of a stage on where a point lies: code for the inside of a result differs from that for its ends."""

from __future__ import annotations

from collections.abc import Iterator

from autosched.analysis.bound_pipeline import BoundStage
from autosched.analysis.indices.comparisons import MIRRORED, ORDERINGS
from autosched.lang.expr import Binary, Const, Expr, Var, postorder

_ANYWHERE = 1 << 40


def point_ranges(stage: BoundStage) -> Iterator[tuple[str, int, int]]:
    """Yield the dimension and its first and last point where a comparison with a number holds, for each comparison."""
    seen: set[int] = set()
    for e in postorder([*stage.values, *stage.indices], seen):
        seen.add(id(e))
        if isinstance(e, Binary) and e.op in ORDERINGS:
            for a, b, op in ((e.a, e.b, e.op), (e.b, e.a, MIRRORED[e.op])):
                place, number = _place(a), _number(b)
                if place is not None and number is not None:
                    at = number - place[1]
                    match op:
                        case "lt":
                            yield place[0], -_ANYWHERE, at - 1
                        case "le":
                            yield place[0], -_ANYWHERE, at
                        case "gt":
                            yield place[0], at + 1, _ANYWHERE
                        case _:
                            yield place[0], at, _ANYWHERE


def _place(e: Expr) -> tuple[str, int] | None:
    """Return a dimension and what is added to it."""
    if isinstance(e, Var):
        return e.name, 0
    if isinstance(e, Binary) and e.op in ("add", "sub"):
        place, number = _place(e.a), _number(e.b)
        if place is not None and number is not None:
            return place[0], place[1] + (number if e.op == "add" else -number)
    return None


def _number(e: Expr) -> int | None:
    if isinstance(e, Const) and e.dtype.is_int:
        return int(e.value)
    if isinstance(e, Binary) and e.op in ("add", "sub"):
        a, b = _number(e.a), _number(e.b)
        if a is not None and b is not None:
            return a + b if e.op == "add" else a - b
    return None
