"""Conditions of a stage on its point, for which the interior of a result and its ends have different code."""

from __future__ import annotations

from collections.abc import Iterator

from autosched.analysis.bound_pipeline import BoundStage
from autosched.analysis.indices.comparisons import MIRRORED, ORDERINGS
from autosched.lang.expr import Binary, Const, Expr, Var, postorder

_ANYWHERE = 1 << 40


def point_ranges(stage: BoundStage) -> Iterator[tuple[str, int, int]]:
    """Yield for each comparison with a number its dimension and the first and last point where it is true."""
    seen: set[int] = set()
    for e in postorder([*stage.values, *stage.indices], seen):
        seen.add(id(e))
        if isinstance(e, Binary) and e.op in ORDERINGS:
            for a, b, op in ((e.a, e.b, e.op), (e.b, e.a, MIRRORED[e.op])):
                shifted, number = _shifted_dim(a), _number(b)
                if shifted is not None and number is not None:
                    at = number - shifted[1]
                    match op:
                        case "lt":
                            yield shifted[0], -_ANYWHERE, at - 1
                        case "le":
                            yield shifted[0], -_ANYWHERE, at
                        case "gt":
                            yield shifted[0], at + 1, _ANYWHERE
                        case _:
                            yield shifted[0], at, _ANYWHERE


def _shifted_dim(e: Expr) -> tuple[str, int] | None:
    """Return the dimension and the addend of ``dimension + constant``."""
    if isinstance(e, Var):
        return e.name, 0
    if isinstance(e, Binary) and e.op in ("add", "sub"):
        shifted, number = _shifted_dim(e.a), _number(e.b)
        if shifted is not None and number is not None:
            return shifted[0], shifted[1] + (number if e.op == "add" else -number)
    return None


def _number(e: Expr) -> int | None:
    if isinstance(e, Const) and e.dtype.is_int:
        return int(e.value)
    if isinstance(e, Binary) and e.op in ("add", "sub"):
        a, b = _number(e.a), _number(e.b)
        if a is not None and b is not None:
            return a + b if e.op == "add" else a - b
    return None
