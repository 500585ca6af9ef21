"""A bound pipeline as a vector of its workload, independent of a schedule: to compare sets of pipelines."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.analysis.expressions.operation_count import CALL_OPERATIONS, operations
from autosched.lang.expr import Binary, Call, Load, Select, walk
from autosched.random_pipelines.workload_counts import computed_funcs, evaluations, func_bytes, input_bytes

EXTREMES = ("min", "max")
SHARES = ("reduction", "carried", "calls", "extremes", "selects", "gathers", "loads", "integers", "bits")


@dataclass(slots=True)
class StageTotals:
    """Sums over all evaluations of all stages.

    Attributes:
        funcs: The Funcs except boundary conditions.
        operations: Operations; a function call counts as ten.
        evaluations: Evaluations.
        shares: Evaluations with a property, or operations of a kind, by name.
    """

    funcs: list[BoundFunc]
    operations: float = 0.0
    evaluations: float = 0.0
    shares: dict[str, float] = field(default_factory=lambda: dict.fromkeys(SHARES, 0.0))

    def add(self, name: str, amount: float) -> None:
        """Add to a share."""
        self.shares[name] += amount


def workload_vector(bound: BoundPipeline) -> NDArray[np.float64]:
    """Return the values of `WORKLOAD_FEATURES`, ``float64[features]``, all finite."""
    totals = StageTotals(list(computed_funcs(bound)))
    for func in totals.funcs:
        for stage in func.stages:
            _add_stage(totals, func, stage)
    return np.array([feature(bound, totals) for feature in WORKLOAD_FEATURES.values()])


def _add_stage(totals: StageTotals, func: BoundFunc, stage: BoundStage) -> None:
    times = float(evaluations(func, stage))
    totals.evaluations += times
    totals.operations += operations(stage) * times
    totals.add("reduction", times * bool(stage.reductions))
    totals.add("carried", times * any(not d.parallel and not stage.associative for d in stage.reductions))
    nodes = list(walk(*stage.values))
    totals.add("calls", times * CALL_OPERATIONS * sum(isinstance(n, Call) for n in nodes))
    totals.add("extremes", times * sum(isinstance(n, Binary) and n.op in EXTREMES for n in nodes))
    totals.add("selects", times * sum(isinstance(n, Select) for n in nodes))
    loads = [load for load, _ in stage.loads]
    totals.add("loads", times * len(loads))
    totals.add("gathers", times * sum(any(isinstance(n, Load) for n in walk(*load.indices)) for load in loads))
    scattered = any(isinstance(n, Load) for n in walk(*stage.indices))
    totals.add("gathers", times * scattered)
    totals.add("loads", times * scattered)
    totals.add("integers", times * (not func.dtypes[0].is_float))
    totals.add("bits", times * math.log2(max(func.dtypes[0].bits, 8)))


def _per_operation(name: str) -> Callable[[BoundPipeline, StageTotals], float]:
    return lambda bound, totals: min(totals.shares[name] / max(totals.operations, 1.0), 1.0)


def _per_evaluation(name: str) -> Callable[[BoundPipeline, StageTotals], float]:
    return lambda bound, totals: totals.shares[name] / max(totals.evaluations, 1.0)


def _output_points(bound: BoundPipeline) -> float:
    return float(max(sum(prod(bound.funcs[f].extents) for f in bound.outputs.values()), 1))


def _compulsory_bytes(bound: BoundPipeline) -> float:
    return float(max(input_bytes(bound) + sum(func_bytes(bound.funcs[f]) for f in set(bound.outputs.values())), 1))


def _depth(bound: BoundPipeline, totals: StageTotals) -> float:
    depth: dict[str, int] = {}
    for f in bound.funcs.values():  # producers come first
        below = [depth.get(s, 0) for stage in f.stages for s in stage.sources if s != f.name]
        depth[f.name] = max(below, default=0) + (f.boundary is None)
    return math.log2(max(max(depth.values()), 1))


def _longest_reduction(bound: BoundPipeline, totals: StageTotals) -> float:
    lengths = (prod(d.extent for d in s.reductions) for f in totals.funcs for s in f.stages)
    return math.log2(max(1, *lengths))


def _window(bound: BoundPipeline, totals: StageTotals) -> float:
    """Return the logarithm of the most elements of a source that one value reads: distinct loads times short loops."""
    elements = [1]
    for f in totals.funcs:
        for s in f.stages:
            terms = prod(d.extent for d in s.reductions)
            elements.append(max(s.load_counts.values(), default=1) * (terms if 0 < terms <= 1024 else 1))
    return math.log2(max(elements))


def _gathers(bound: BoundPipeline, totals: StageTotals) -> float:
    return totals.shares["gathers"] / max(totals.shares["loads"], 1.0)


WORKLOAD_FEATURES: Mapping[str, Callable[[BoundPipeline, StageTotals], float]] = {
    "log2 of operations": lambda bound, totals: math.log2(max(totals.operations, 1.0)),
    "log2 of operations per output point": lambda bound, totals: math.log2(
        max(totals.operations / _output_points(bound), 1.0)
    ),
    "log2 of operations per compulsory byte": lambda bound, totals: math.log2(
        max(totals.operations / _compulsory_bytes(bound), 1.0 / 64)
    ),
    "log2 of compulsory bytes per output point": lambda bound, totals: math.log2(
        _compulsory_bytes(bound) / _output_points(bound)
    ),
    "log2 of points of the largest Func": lambda bound, totals: math.log2(
        max(1, *(prod(f.extents) for f in totals.funcs))
    ),
    "log2 of stages": lambda bound, totals: math.log2(sum(len(f.stages) for f in totals.funcs)),
    "log2 of the depth": _depth,
    "log2 of outputs": lambda bound, totals: math.log2(len(bound.outputs)),
    "boundary conditions per Func": lambda bound, totals: (len(bound.funcs) - len(totals.funcs)) / len(totals.funcs),
    "log2 of the longest reduction": _longest_reduction,
    "log2 of the largest window": _window,
    "share of evaluations in reductions": _per_evaluation("reduction"),
    "share of evaluations that carry a dependence": _per_evaluation("carried"),
    "share of operations in function calls": _per_operation("calls"),
    "share of operations that are minima or maxima": _per_operation("extremes"),
    "share of operations that are selections": _per_operation("selects"),
    "share of accesses at indices read from data": _gathers,
    "share of evaluations of integers": _per_evaluation("integers"),
    "mean log2 of bits of an element": _per_evaluation("bits"),
}
"""The features by name."""
