"""Statistics of the distribution of random pipelines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline
from autosched.random_pipelines.generate import RandomPipeline
from autosched.random_pipelines.workload_counts import computed_funcs, func_bytes, input_bytes, total_operations

QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)

MEASURES: Mapping[str, str] = {
    "kinds": "kinds of stages drawn",
    "stages": "definitions and updates, without boundary conditions",
    "funcs": "Funcs, without boundary conditions",
    "boundaries": "boundary conditions",
    "inputs": "inputs",
    "depth": "stages on the longest way from an input to an output",
    "fan_out": "most readers of one Func",
    "read_twice": "Funcs with more than one reader",
    "operations": "operations, each point computed once (integer arithmetic too; a function call is 10)",
    "compulsory_bytes": "bytes of inputs and outputs",
    "intensity": "operations per compulsory byte",
    "intermediate_bytes": "bytes of all Funcs that are no outputs",
    "largest_points": "points of the largest Func",
    "longest_extent": "longest extent of a Func",
}
"""Measures of each pipeline."""
COUNTS: Mapping[str, str] = {
    "kind": "kind of stage",
    "dtype": "element type of Funcs",
    "input dtype": "element type of inputs",
    "layout": "dimensions of images among the inputs",
    "rank": "number of dimensions of Funcs",
    "boundary": "boundary condition",
    "form": "form of Funcs",
    "outputs": "outputs of the pipeline",
}
"""Counters of named properties of each pipeline."""


@dataclass(frozen=True)
class Description:
    """Statistics of some pipelines.

    Attributes:
        count: Number of pipelines.
        measures: For each of `MEASURES`, its value in every pipeline, in ascending order.
        occurrences: For each of `COUNTS`, the number of occurrences of each name.
        pipelines: For each of `COUNTS`, the number of pipelines with each name.
    """

    count: int
    measures: Mapping[str, Sequence[float]]
    occurrences: Mapping[str, Counter[str]]
    pipelines: Mapping[str, Counter[str]]

    def quantile(self, measure: str, share: float) -> float:
        """Return the value that a share of the pipelines do not exceed."""
        values = self.measures[measure]
        return values[round(share * (len(values) - 1))]

    def tables(self) -> str:
        """Return the statistics as Markdown tables."""
        head = [f"{q:.0%}" if 0 < q < 1 else "least" if q == 0 else "most" for q in QUANTILES]
        lines = ["| of a pipeline | " + " | ".join(head) + " |", "|---|" + "---|" * len(head)]
        for name, meaning in MEASURES.items():
            lines.append(f"| {meaning} | " + " | ".join(_short(self.quantile(name, q)) for q in QUANTILES) + " |")
        for name, meaning in COUNTS.items():
            total = self.occurrences[name].total()
            lines += ["", f"| {meaning} | occurrences | share | in pipelines |", "|---|---|---|---|"]
            for what, n in sorted(self.occurrences[name].items(), key=lambda pair: (-pair[1], pair[0])):
                lines.append(f"| {what} | {n} | {n / total:.1%} | {self.pipelines[name][what] / self.count:.0%} |")
        return "\n".join(lines) + "\n"


def describe(pipelines: Iterable[RandomPipeline]) -> Description:
    """Return statistics of pipelines; there must be at least one."""
    measures: dict[str, list[float]] = {name: [] for name in MEASURES}
    occurrences: dict[str, Counter[str]] = {name: Counter() for name in COUNTS}
    found_in: dict[str, Counter[str]] = {name: Counter() for name in COUNTS}
    count = 0
    for p in pipelines:
        count += 1
        bound = p.bind()
        for name, value in _measured(p, bound).items():
            measures[name].append(value)
        for name, names in _counted(p, bound).items():
            occurrences[name].update(names)
            found_in[name].update(set(names))
    return Description(count, {name: sorted(v) for name, v in measures.items()}, occurrences, found_in)


def _measured(p: RandomPipeline, bound: BoundPipeline) -> dict[str, float]:
    funcs = list(computed_funcs(bound))
    readers = {f.name: _readers(bound, f) for f in funcs}
    ends = set(bound.outputs.values())
    compulsory = input_bytes(bound) + sum(func_bytes(bound.funcs[name]) for name in ends)
    total = total_operations(bound)
    depth: dict[str, int] = {}
    for f in bound.funcs.values():  # producers come first
        below = [depth.get(s, 0) for stage in f.stages for s in stage.sources if s != f.name]
        depth[f.name] = max(below, default=0) + (f.boundary is None)
    return {
        "kinds": len(p.kinds),
        "stages": sum(len(f.stages) for f in funcs),
        "funcs": len(funcs),
        "boundaries": len(bound.funcs) - len(funcs),
        "inputs": len(bound.inputs),
        "depth": max(depth.values()),
        "fan_out": max(len(r) for r in readers.values()),
        "read_twice": sum(len(r) > 1 for r in readers.values()),
        "operations": total,
        "compulsory_bytes": compulsory,
        "intensity": total / compulsory,
        "intermediate_bytes": sum(func_bytes(f) for f in funcs if f.name not in ends),
        "largest_points": max(prod(f.extents) for f in funcs),
        "longest_extent": max(max(f.extents, default=1) for f in funcs),
    }


def _readers(bound: BoundPipeline, func: BoundFunc) -> set[str]:
    """Return the Funcs that read a Func, directly or through boundary conditions."""
    readers: set[str] = set()
    for name in func.consumers:
        consumer = bound.funcs[name]
        readers |= {name} if consumer.boundary is None else _readers(bound, consumer)
    return readers


def _counted(p: RandomPipeline, bound: BoundPipeline) -> dict[str, list[str]]:
    funcs = list(computed_funcs(bound))
    return {
        "kind": list(p.kinds),
        "dtype": [str(d) for f in funcs for d in f.dtypes],
        "input dtype": [str(i.dtype) for i in bound.inputs.values()],
        "layout": [" ".join(i.dims) for i in p.pipeline.inputs if i.name.startswith("in")],
        "rank": [str(f.ndim) for f in funcs],
        "boundary": [f.boundary for f in bound.funcs.values() if f.boundary is not None],
        "form": [_form(f) for f in funcs],
        "outputs": [str(len(bound.outputs))],
    }


def _form(f: BoundFunc) -> str:
    """Return the form of a Func's definition."""
    if f.is_pure:
        return "pure, of several values" if len(f.dtypes) > 1 else "pure"
    updates = f.stages[1:]
    if any(not d.parallel and not s.associative for s in updates for d in s.reductions):
        return "updates that carry a dependence"
    return "reduction"


def _short(value: float) -> str:
    """Return a number with three digits and a unit prefix."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= (limit if limit > 1e3 else 10 * limit):
            return f"{value / limit:.3g} {unit}"
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
