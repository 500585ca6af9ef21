"""Loads that stand in the arm of a selection between indices, which some blocks do not take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autosched.analysis.bound_pipeline import BoundStage
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.comparisons import decide
from autosched.lang.expr import COMPARISONS, Binary, Expr, Load, Select, Unary, walk


def loads_never_taken(stage: BoundStage, inside: Mapping[str, ix.Index]) -> set[int]:
    """Return loads, by ``id``, that some blocks may leave out, as a comparison of indices selects another value there.

    They count all the same.

    Args:
        stage: The stage.
        inside: Its loops in the middle of their ranges.
    """
    found: set[int] = set()
    for e, taken in _selections(stage, inside):
        for arm, is_taken in ((e.t, True), (e.f, False)):
            if taken != "data" and taken is not is_taken:
                found |= {id(n) for n in walk(arm) if isinstance(n, Load)}
    return found


def loads_only_at_boundary(stage: BoundStage, inside: Mapping[str, ix.Index]) -> set[int]:
    """Return nodes, by ``id``, that code for the middle of the loops' ranges does not have.

    These are selections that a comparison of indices decides there, their conditions, and the arm not taken.

    Args:
        stage: The stage.
        inside: Its loops in the middle of their ranges.
    """
    found: set[int] = set()
    for e, taken in _selections(stage, inside):
        if isinstance(taken, bool):
            found |= {id(e), *map(id, walk(e.cond)), *map(id, walk(e.f if taken else e.t))}
    return found


def _selections(stage: BoundStage, inside: Mapping[str, ix.Index]) -> Iterator[tuple[Select, bool | str]]:
    """Yield each selection of a stage once, with what decides it there (see `_decided`)."""
    for e in {id(e): e for root in stage.values for e in walk(root)}.values():
        if isinstance(e, Select):
            yield e, _decided(e.cond, stage, inside)


def _decided(e: Expr, stage: BoundStage, inside: Mapping[str, ix.Index]) -> bool | str:
    """Return what a condition is in the middle of the loops' ranges: a truth value, ``data`` or ``mixed``."""
    match e:
        case Binary() if e.op in COMPARISONS and e.a.weak and e.b.weak and e.a.dtype.kind == "i":
            a, b = (ix.substitute(stage.index_of(i), inside) for i in (e.a, e.b))
            lo, hi = ix.interval(ix.sub(a, b))
            outcome = decide(e.op, lo, hi)
            return "mixed" if outcome is None else outcome
        case Binary() if e.op in ("and", "or"):
            sides = {_decided(e.a, stage, inside), _decided(e.b, stage, inside)}
            if (e.op == "or") in sides:
                return e.op == "or"
            if len(sides) == 1:
                return sides.pop()
            return "data" if "mixed" not in sides else "mixed"
        case Unary() if e.op == "not":
            inner = _decided(e.a, stage, inside)
            return not inner if isinstance(inner, bool) else inner
        case _:
            return "data"
