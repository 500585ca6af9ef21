"""Loads in the arms of selects between indices, which some blocks do not evaluate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autosched.analysis.bound_pipeline import BoundStage
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.comparisons import decide
from autosched.lang.expr import COMPARISONS, Binary, Expr, Load, Select, Unary, walk


def loads_never_taken(stage: BoundStage, inside: Mapping[str, ix.Index]) -> set[int]:
    """Return the loads, by ``id``, that blocks skip where a comparison of indices selects the other arm.

    Features count them.

    Args:
        stage: The stage.
        inside: Its loops in the middle of their ranges.
    """
    loads: set[int] = set()
    for e, taken in _selects(stage, inside):
        for arm, is_taken in ((e.t, True), (e.f, False)):
            if taken != "data" and taken is not is_taken:
                loads |= {id(n) for n in walk(arm) if isinstance(n, Load)}
    return loads


def loads_only_at_boundary(stage: BoundStage, inside: Mapping[str, ix.Index]) -> set[int]:
    """Return the nodes, by ``id``, that interior code lacks.

    These are selects with a constant condition in the middle of the loops' ranges, the conditions, and the other arm.

    Args:
        stage: The stage.
        inside: Its loops in the middle of their ranges.
    """
    nodes: set[int] = set()
    for e, taken in _selects(stage, inside):
        if isinstance(taken, bool):
            nodes |= {id(e), *map(id, walk(e.cond)), *map(id, walk(e.f if taken else e.t))}
    return nodes


def _selects(stage: BoundStage, inside: Mapping[str, ix.Index]) -> Iterator[tuple[Select, bool | str]]:
    """Yield each select of a stage once, with the value of its condition (see `_condition_value`)."""
    for e in {id(e): e for root in stage.values for e in walk(root)}.values():
        if isinstance(e, Select):
            yield e, _condition_value(e.cond, stage, inside)


def _condition_value(e: Expr, stage: BoundStage, inside: Mapping[str, ix.Index]) -> bool | str:
    """Return the value of a condition in the middle of the loops' ranges: a constant, ``data`` or ``mixed``."""
    match e:
        case Binary() if e.op in COMPARISONS and e.a.weak and e.b.weak and e.a.dtype.kind == "i":
            a, b = (ix.substitute(stage.index_of(i), inside) for i in (e.a, e.b))
            lo, hi = ix.interval(ix.sub(a, b))
            outcome = decide(e.op, lo, hi)
            return "mixed" if outcome is None else outcome
        case Binary() if e.op in ("and", "or"):
            sides = {_condition_value(e.a, stage, inside), _condition_value(e.b, stage, inside)}
            if (e.op == "or") in sides:
                return e.op == "or"
            if len(sides) == 1:
                return sides.pop()
            return "data" if "mixed" not in sides else "mixed"
        case Unary() if e.op == "not":
            inner = _condition_value(e.a, stage, inside)
            return not inner if isinstance(inner, bool) else inner
        case _:
            return "data"
