"""Reads guarded by conditions, and the ranges of stored integers, for pipelines that need them.

A guarded read has an effect only where the conditions around it hold. Its index counts with the range that follows from
them, and elsewhere the nearest element is read, as in ``np.where(condition, table[np.clip(i, 0, n - 1)], other)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from autosched.lang.expr import Binary, Load, Select
from autosched.lang.func import Func, Input, source_of
from autosched.lang.pipeline import Pipeline
from autosched.reference.intervals import Interval, whole
from autosched.reference.numbering import Numbering
from autosched.reference.program import Bindings
from autosched.reference.ranges import ENDLESS, NEVER, Facts, Ranges
from autosched.reference.stage import ReferenceStage

_ROUNDS = 3


def mark_guarded_reads(stages: Iterable[ReferenceStage]) -> None:
    """Mark the reads of stages in arms of selects and in right operands of logical operators."""
    for s in stages:
        s.numbering.guarded = _guarded_reads(s)


def _guarded_reads(stage: ReferenceStage) -> frozenset[int]:
    """Return the reads that have an effect under conditions alone, except that of the written point."""
    numbering, guarded, unconditional = stage.numbering, set[int](), set[int]()
    stack = [(n, False) for n in (*stage.indices, *stage.values)]
    while stack:
        n, inside = stack.pop()
        seen = guarded if inside else unconditional
        if n not in seen:
            seen.add(n)
            conditional = _conditional_operands(numbering, n)
            stack += [(o, inside or o in conditional) for o in numbering.operands[n]]
    reads = frozenset(n for n in guarded - unconditional if isinstance(numbering.nodes[n], Load))
    own_point = (n for n in reads if _source(numbering, n) is stage.func and numbering.operands[n] == stage.indices)
    return reads.difference(own_point)


def _source(numbering: Numbering, n: int) -> Func | Input:
    node = numbering.nodes[n]
    assert isinstance(node, Load)
    return source_of(node)


def guard_facts(stage: ReferenceStage, ranges: Ranges) -> dict[int, Facts]:
    """Return what holds wherever each guarded read has an effect: what all its users imply.

    Args:
        stage: The stage, with marked reads.
        ranges: Ranges over its loops.
    """
    numbering = stage.numbering
    in_indices = frozenset(numbering.reachable(*(o for n in numbering.guarded for o in numbering.operands[n])))
    facts: dict[int, Facts] = {n: {} for n in (*stage.indices, *stage.values)}
    for n in reversed(numbering.reachable(*facts)):  # users before operands
        own, operands = facts[n], numbering.operands[n]
        conditional = _conditional_operands(numbering, n)
        for k, o in enumerate(operands):
            given = own
            if o in conditional:
                truth = _truth(numbering, n, k)
                given = ranges.refine(operands[0], truth, own, in_indices)
            facts[o] = given if o not in facts else _common(facts[o], given)
    return {n: facts[n] for n in numbering.guarded}


def reached(indices: Sequence[int], ranges: Ranges, facts: Facts | None) -> list[Interval]:
    """Return the ranges of the indices of a read, 0 where its conditions contradict each other.

    Args:
        indices: Numbers of the indices.
        ranges: Ranges over the loops.
        facts: What holds wherever the read has an effect; None for a read that no condition guards.
    """
    if facts and NEVER in facts:
        return [Interval(0, 0)] * len(indices)
    return [ranges.of(n, facts) for n in indices]


def _conditional_operands(numbering: Numbering, n: int) -> frozenset[int]:
    """Return the operands that have an effect under a condition alone."""
    node, operands = numbering.nodes[n], numbering.operands[n]
    match node:
        case Select():
            arms = frozenset(operands[1:]) if operands[1] != operands[2] else frozenset[int]()
            return arms - {operands[0]}
        case Binary(op="and" | "or") if node.dtype.kind == "b":
            return frozenset(operands[1:]) - {operands[0]}
    return frozenset()


def _truth(numbering: Numbering, n: int, position: int) -> bool:
    node = numbering.nodes[n]
    return position == 1 if isinstance(node, Select) else isinstance(node, Binary) and node.op == "and"


def _common(a: Facts, b: Facts) -> Facts:
    return {n: r.hull(b[n]) for n, r in a.items() if n in b}


def with_stored_ranges(pipeline: Pipeline, stages: Mapping[Func, Sequence[ReferenceStage]], b: Bindings) -> Bindings:
    """Return bindings with the ranges of the integers that Funcs store at any point."""
    stored: dict[object, tuple[Interval, ...]] = {}
    for func in pipeline.funcs:
        if not any(d.is_int for d in func.dtypes):
            continue
        ranges: tuple[Interval, ...] | None = None
        for stage in stages[func]:
            if not stage.values or stage.never_runs:
                continue
            if not any(func in stage.numbering.sources[n] for n in (*stage.indices, *stage.values)):
                ranges = _hull(ranges, _values(stage, replace(b, stored=stored)))
            elif ranges is not None:
                ranges = _closed(stage, ranges, b, stored)
        if ranges is not None:
            stored[func] = ranges
    return replace(b, stored=stored)


def _closed(
    stage: ReferenceStage, ranges: tuple[Interval, ...], b: Bindings, stored: Mapping[object, tuple[Interval, ...]]
) -> tuple[Interval, ...]:
    """Return ranges that contain those before an update and what it stores, however often it runs."""
    types = tuple(whole(d) for d in stage.func.dtypes)
    for _ in range(_ROUNDS):
        after = _hull(ranges, _values(stage, replace(b, stored={**stored, stage.func: ranges})))
        if after == ranges:
            return ranges
        grown, ranges = [p != q for p, q in zip(after, ranges, strict=True)], after
    # Components that still grow, and perhaps others that depend on them, may have any value.
    ranges = tuple(t if g else r for t, g, r in zip(types, grown, ranges, strict=True))
    after = _hull(ranges, _values(stage, replace(b, stored={**stored, stage.func: ranges})))
    return ranges if after == ranges else types


def _values(stage: ReferenceStage, bindings: Bindings) -> tuple[Interval, ...]:
    endless = tuple((-ENDLESS, ENDLESS) for _ in range(stage.func.ndim))
    ranges = Ranges(stage.numbering, bindings, stage.loops(endless))
    values = []
    for dtype, n in zip(stage.func.dtypes, stage.values, strict=True):
        r, limits = ranges.of(n) if dtype.is_int else whole(dtype), whole(dtype)
        values.append(r if limits.low <= r.low and r.high <= limits.high else limits)
    return tuple(values)


def _hull(a: tuple[Interval, ...] | None, b: tuple[Interval, ...]) -> tuple[Interval, ...]:
    return b if a is None else tuple(p.hull(q) for p, q in zip(a, b, strict=True))
