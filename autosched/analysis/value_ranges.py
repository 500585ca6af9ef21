"""Ranges of the values of a bound pipeline, from the types of its inputs and the sizes of its reductions.

Sums of 63 bytes lie in [0, 16065]. The range of a Func contains every value that its stages store, so those of partial
sums as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from autosched.analysis.access.accumulation import Accumulation, accumulation
from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.expressions.interval_arithmetic import (
    ValueRange,
    operation_range,
    range_operands,
    type_range,
)
from autosched.analysis.indices import index as ix
from autosched.analysis.pipeline_memo import pipeline_memo
from autosched.lang.expr import Expr, Load, RVar, Var, postorder
from autosched.lang.func import Definition

_MEMO = "_value_ranges"
Components = tuple[ValueRange, ...]


def value_ranges(bound: BoundPipeline) -> ValueRanges:
    """Return the ranges of a pipeline's values; the same object for the same pipeline."""
    memo = pipeline_memo(bound, _MEMO)
    if _MEMO not in memo:
        memo[_MEMO] = ValueRanges(bound)
    ranges: ValueRanges = memo[_MEMO]
    return ranges


class ValueRanges:
    """Ranges of the values of one pipeline.

    Args:
        bound: The pipeline.
    """

    def __init__(self, bound: BoundPipeline) -> None:
        self._bound = bound
        self._funcs: dict[str, Components] = {}
        self._stages: dict[tuple[str, int], _StageRanges] = {}
        for name in bound.funcs:
            self._funcs[name] = self._stored(name)

    def of_func(self, name: str) -> Components:
        """Return the range of each component of a Func."""
        return self._funcs[name]

    def of(self, stage: BoundStage, e: Expr) -> ValueRange:
        """Return the range of an expression at the points of a stage.

        Args:
            stage: A stage of the pipeline.
            e: An expression over its loops.
        """
        key = stage.func, stage.number
        if key not in self._stages:
            self._stages[key] = self._at(stage)
        return self._stages[key](e)

    def of_terms(self, stage: BoundStage) -> Components | None:
        """Return the ranges of what each component of an update accumulates; None for an update of another form."""
        if stage.combine:
            return tuple(self.of(stage, value) for value in stage.values)
        sums = self._accumulation(stage)
        return None if sums is None else tuple(self.of(stage, value) for value in sums.values)

    def _accumulation(self, stage: BoundStage) -> Accumulation | None:
        updated = Definition(stage.indices, stage.values, (), stage.location)
        return accumulation(self._bound.pipeline.func(stage.func), updated)

    def _at(self, stage: BoundStage, own: Components | None = None) -> _StageRanges:
        funcs = self._funcs if own is None else {**self._funcs, stage.func: own}
        return _StageRanges(self._bound, stage, funcs)

    def _stored(self, name: str) -> Components:
        func = self._bound.funcs[name]
        whole = tuple(map(type_range, func.dtypes))
        ranges: Components | None = None
        for stage in func.nonempty_stages:
            if stage.combine:
                ranges = self._accumulated(stage, ranges, list(zip(stage.combine, stage.values, strict=True)))
            elif name in stage.sources:
                ranges = self._updated(stage, ranges)
            else:
                at = self._at(stage)
                new = tuple(map(at, stage.values))
                ranges = new if ranges is None else _hull(ranges, new)
            if ranges is None:
                return whole
        return ranges or whole

    def _updated(self, stage: BoundStage, before: Components | None) -> Components | None:
        """Return the ranges of a Func after an update that reads it; None if they are unknown."""
        if before is None:
            return None
        sums = self._accumulation(stage)
        if sums is not None and "add" in sums.operators:
            return self._accumulated(stage, before, list(zip(sums.operators, sums.values, strict=True)))
        ranges = before
        for _ in range(2):  # minima, maxima and selections change nothing the second time
            at = self._at(stage, ranges)
            after = _hull(ranges, tuple(map(at, stage.values)))
            if after == ranges:
                return ranges
            ranges = after
        return None

    def _accumulated(
        self, stage: BoundStage, before: Components | None, terms: Sequence[tuple[str, Expr]]
    ) -> Components | None:
        """Return the ranges of sums, minima and maxima, partial ones included; None if they are unknown."""
        if before is None:
            return None
        at, most, ranges = self._at(stage), self._most_terms(stage), list[ValueRange]()
        for start, (op, value), dtype in zip(before, terms, self._bound.funcs[stage.func].dtypes, strict=True):
            term = at(value)
            if op in ("min", "max"):
                ranges.append(start.hull(term))
            elif op == "add" and dtype.is_int:
                sums = ValueRange(start.lo + min(term.lo, 0) * most, start.hi + max(term.hi, 0) * most)
                ranges.append(sums if sums.fits(dtype) else type_range(dtype))
            else:
                ranges.append(type_range(dtype))
        return tuple(ranges)

    def _most_terms(self, stage: BoundStage) -> int:
        """Return the greatest number of terms that an update accumulates into one point."""
        spans = loop_spans(self._bound, stage)
        own = {name for i in stage.store for name in ix.loop_vars(i) if ix.key(i) == ix.key(ix.var(name, *_UNBOUNDED))}
        return prod(max(hi - lo + 1, 0) for name, (lo, hi) in spans.items() if name not in own)


_UNBOUNDED = (-ix.UNBOUNDED, ix.UNBOUNDED)


class _StageRanges:
    """Ranges of the expressions of one stage.

    Args:
        bound: The pipeline.
        stage: The stage.
        funcs: Ranges of the Funcs that it reads; by default those of their types.
    """

    def __init__(self, bound: BoundPipeline, stage: BoundStage, funcs: Mapping[str, Components]) -> None:
        self._names, self._funcs = stage.names, funcs
        self._spans = loop_spans(bound, stage)
        self._ranges: dict[int, ValueRange] = {}
        self._kept: list[Expr] = []

    def __call__(self, e: Expr) -> ValueRange:
        """Return the range of an expression."""
        if id(e) not in self._ranges:
            self._kept.append(e)  # ids stay unique
        for node in postorder([e], self._ranges, range_operands):
            self._ranges[id(node)] = self._node(node)
        return self._ranges[id(e)]

    def _node(self, e: Expr) -> ValueRange:
        match e:
            case Var() | RVar():
                return ValueRange(*self._spans[e.name])
            case Load():
                components = self._funcs.get(self._names[id(e.source)])
                return type_range(e.dtype) if components is None else components[e.component]
        return operation_range(e, [self._ranges[id(c)] for c in range_operands(e)])


def loop_spans(bound: BoundPipeline, stage: BoundStage) -> dict[str, tuple[int, int]]:
    """Return the inclusive range of each loop of a stage, by name."""
    func = bound.funcs[stage.func]
    region = dict(zip(func.dims, func.region, strict=True))
    return {d.name: (d.lo, d.hi) if d.reduction else region[d.name] for d in stage.loops}


def _hull(a: Components, b: Components) -> Components:
    return tuple(x.hull(y) for x, y in zip(a, b, strict=True))
