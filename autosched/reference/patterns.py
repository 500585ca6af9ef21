"""Patterns of updates that accumulate, which need no serial loop in Python.

A *fold* is ``f[i] = f[i] op e`` with ``e`` free of ``f``. A *selection* is the update of argmax and argmin: all
components take new values if a candidate is strictly better than the current one, or is the first NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

from autosched.lang.expr import Binary, Load, Select, Unary
from autosched.reference.stage import ReferenceStage

_FOLDS = frozenset({"add", "sub", "mul", "min", "max", "and", "or", "xor"})
_COMMUTATIVE = frozenset({"add", "mul", "and", "or", "xor"})


@dataclass(frozen=True, slots=True)
class Fold:
    """``acc = acc op value`` for one tuple component; ``value`` is a number of the stage's numbering."""

    op: str
    value: int


@dataclass(frozen=True, slots=True)
class Selection:
    """All components take ``values`` where ``values[key]`` is greater (or less) than component ``key``.

    With ``takes_nan``, they also take the first NaN.
    """

    key: int
    greater: bool
    values: tuple[int, ...]
    takes_nan: bool = False


def match_folds(stage: ReferenceStage) -> tuple[Fold, ...] | None:
    """Return one fold for each tuple component, None if the update has another form."""
    matches = [_match_fold(stage, n, k) for k, n in enumerate(stage.values)]
    folds = tuple(f for f in matches if f is not None)
    return folds if len(folds) == len(matches) and _places_are_fixed(stage) else None


def _match_fold(stage: ReferenceStage, n: int, component: int) -> Fold | None:
    node, operands = stage.numbering.nodes[n], stage.numbering.operands[n]
    if not isinstance(node, Binary) or node.op not in _FOLDS:
        return None
    a, b = operands
    if _is_accumulator(stage, a, component) and _reads_others_only(stage, b):
        return Fold(node.op, b)
    swapped = node.op in _COMMUTATIVE or (node.op in ("min", "max") and not node.dtype.is_float)
    if swapped and _is_accumulator(stage, b, component) and _reads_others_only(stage, a):
        return Fold(node.op, a)
    return None


def match_selection(stage: ReferenceStage) -> Selection | None:
    """Return the selection of an update, None if it has another form."""
    numbering = stage.numbering
    if not all(isinstance(numbering.nodes[n], Select) for n in stage.values) or not _places_are_fixed(stage):
        return None
    conditions, values, kept = zip(*(numbering.operands[n] for n in stage.values), strict=True)
    if len(set(conditions)) > 1 or not all(_is_accumulator(stage, n, k) for k, n in enumerate(kept)):
        return None
    comparison = _match_comparison(stage, conditions[0])
    if comparison is None:
        return None
    op, new, old, takes_nan = comparison
    greater = op == "gt"
    if old not in kept and not takes_nan:
        new, old, greater = old, new, not greater
    if old not in kept or values[kept.index(old)] != new or not all(_reads_others_only(stage, v) for v in values):
        return None
    return Selection(kept.index(old), greater, values, takes_nan)


def _match_comparison(stage: ReferenceStage, n: int) -> tuple[str, int, int, bool] | None:
    """Return operator and operands of ``new > old`` or ``new < old``, and whether a NaN counts as better.

    The form with NaN is ``~(new <= old) & (old == old)``, or with ``>=``.
    """
    nodes, operands = stage.numbering.nodes, stage.numbering.operands
    condition = nodes[n]
    if not isinstance(condition, Binary):
        return None
    if condition.op in ("lt", "gt"):
        new, old = operands[n]
        return condition.op, new, old, False
    if condition.op != "and":
        return None
    unless, same = operands[n]
    inverted, number = nodes[unless], nodes[same]
    if not isinstance(inverted, Unary) or inverted.op != "not" or not isinstance(number, Binary) or number.op != "eq":
        return None
    worse = operands[unless][0]
    comparison = nodes[worse]
    if not isinstance(comparison, Binary) or comparison.op not in ("le", "ge"):
        return None
    new, old = operands[worse]
    if operands[same] != (old, old):
        return None
    return "gt" if comparison.op == "le" else "lt", new, old, True


def _is_accumulator(stage: ReferenceStage, n: int, component: int) -> bool:
    """Whether ``n`` reads the point and component that the stage writes."""
    node = stage.numbering.nodes[n]
    return (
        isinstance(node, Load)
        and node.source is stage.func
        and node.component == component
        and stage.numbering.operands[n] == stage.indices
    )


def _reads_others_only(stage: ReferenceStage, n: int) -> bool:
    return stage.func not in stage.numbering.sources[n]


def _places_are_fixed(stage: ReferenceStage) -> bool:
    return all(_reads_others_only(stage, n) for n in stage.indices)
