"""Facts about integers that follow from the condition of a select."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from autosched.analysis.indices import index as ix
from autosched.analysis.indices.comparisons import MIRRORED, NEGATED
from autosched.lang.expr import COMPARISONS, Binary, Const, Expr, Unary

MOST_TERMS = 256
"""Number of terms, nested ones included, beyond which ranges are not refined: chains of selects would take quadratic
time."""
Fact = tuple[ix.Index, ix.Interval]
"""An index and its range."""

NEVER: Fact = (0, (1, 1))
"""A fact that cannot hold."""


def compared_integers(condition: Expr) -> list[Expr]:
    """Return the integers that a condition compares."""
    return [e for c, _ in _comparisons(condition, None) for e in (c.a, c.b)]


def implied_facts(condition: Expr, truth: bool, memo: Mapping[int, ix.Index]) -> list[Fact]:
    """Return the facts that follow from a condition.

    Args:
        condition: Comparisons, combined by logical operators.
        truth: Whether the condition holds or fails.
        memo: Indices of the compared integers by ``id``.

    Returns:
        The facts; a contradictory one if the condition is a constant and has the other value.
    """
    facts: list[Fact] = []
    if any(isinstance(e, Const) and bool(e.value) != holds for e, holds in _implied_operands(condition, truth)):
        facts.append(NEVER)
    for comparison, holds in _comparisons(condition, truth):
        a, b = memo[id(comparison.a)], memo[id(comparison.b)]
        op = comparison.op if holds else NEGATED[comparison.op]
        if op != "ne":
            of_a, of_b = _implied(op, ix.interval(b)), _implied(MIRRORED[op], ix.interval(a))
            facts += [(a, of_a), (b, of_b)]
            facts += _of_magnitudes(((comparison.a, of_a), (comparison.b, of_b)), memo)
    return facts


def _of_magnitudes(compared: Sequence[tuple[Expr, ix.Interval]], memo: Mapping[int, ix.Index]) -> list[Fact]:
    """Return the facts about ``a`` that follow from upper bounds of ``abs(a)``, where that does not wrap."""
    return [
        (memo[id(e.a)], (-high, high))
        for e, (_, high) in compared
        if isinstance(e, Unary) and e.op == "abs" and id(e.a) in memo and 0 <= high < ix.UNBOUNDED
        if e.weak or ix.interval(memo[id(e.a)])[0] > e.dtype.min_value
    ]


def range_given_facts(e: ix.Index, facts: Sequence[Fact]) -> ix.Interval:
    """Return the range of an index given facts about its terms, or about the index plus a constant."""
    ranges: dict[str, ix.Interval] = {}
    for index, (low, high) in facts:
        match ix.terms_of(index):
            case ((term, 1),) if isinstance(index, ix.Affine):
                lo, hi = ranges.get(term.key, term.interval)
                ranges[term.key] = max(lo, low - index.const), min(hi, high - index.const)
    if any(lo > hi for lo, hi in ranges.values()):
        return ix.interval(e)  # contradictory facts: the arm is never selected
    if sum(1 for _ in islice(ix.atoms(e), MOST_TERMS + 1)) > MOST_TERMS:
        return ix.interval(e)
    lo, hi = ix.bounds(e, ranges)
    for index, (low, high) in facts:
        difference = ix.sub(e, index)
        if isinstance(difference, int):
            lo, hi = max(lo, low + difference), min(hi, high + difference)
    return (lo, hi) if lo <= hi else ix.interval(e)


def _comparisons(condition: Expr, truth: bool | None) -> Iterator[tuple[Binary, bool]]:
    """Yield the comparisons of integers among the `implied_comparisons`."""
    return ((c, holds) for c, holds in implied_comparisons(condition, truth) if c.a.dtype.is_int and c.b.dtype.is_int)


def implied_comparisons(condition: Expr, truth: bool | None) -> Iterator[tuple[Binary, bool]]:
    """Yield comparisons implied by the truth of a condition, all for ``truth=None``, and whether each holds."""
    for e, holds in _implied_operands(condition, truth):
        if isinstance(e, Binary) and e.op in COMPARISONS:
            yield e, holds


def _implied_operands(condition: Expr, truth: bool | None) -> Iterator[tuple[Expr, bool]]:
    """Yield the operands of logical operators that the truth of a condition implies, as `implied_comparisons`."""
    stack = [(condition, truth is not False)]
    while stack:
        e, holds = stack.pop()
        match e:
            case Unary(op="not"):
                stack.append((e.a, not holds))
            case Binary(op="and" | "or") if e.dtype.kind == "b":
                if truth is None or (e.op == "and") == holds:
                    stack += [(e.b, holds), (e.a, holds)]
            case _:
                yield e, holds


def _implied(op: str, other: ix.Interval) -> ix.Interval:
    """Return the range of a number that compares so with one of the given range."""
    lo, hi = other
    match op:
        case "lt":
            return -2 * ix.UNBOUNDED, hi - 1
        case "le":
            return -2 * ix.UNBOUNDED, hi
        case "gt":
            return lo + 1, 2 * ix.UNBOUNDED
        case "ge":
            return lo, 2 * ix.UNBOUNDED
    return other
