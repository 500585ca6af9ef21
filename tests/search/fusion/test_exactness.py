"""The cheapest schedule of fusion by dynamic programming is the cheapest of all schedules of the same space.

The witness enumerates whole schedules: every option of every decision, in each pipeline with clones. The legality of
whole schedules and the model decide; no group is costed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import FuncClone
from autosched.analysis.rewrites.func_cloning import clone_funcs, consumers_of, originals
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.schedule.legality.validate import violations
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Schedule
from autosched.search.beam.to_schedule import schedule_of
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.fusion.settings import EXACT
from autosched.search.strategies.protocol import DynamicProgramming
from autosched.target import get_target
from tests.search.fusion.random_graphs import FEW_TILES, MOST_FUNCS, all_states, random_graph, random_outputs

H200 = get_target("h200")
GRAPHS = 200
SHORT = [seed for seed in range(GRAPHS) if len(random_graph(seed).funcs) <= MOST_FUNCS - 2][:20]
"""Random graphs outside of long runs, all of them small."""

WITHOUT_CLONES = replace(EXACT, clones=False)
CLONED_GRAPHS = 200
SHORT_CLONED = range(20)
"""Graphs with clones outside of long runs, of at most `MOST_CLONED` pipelines each; in long runs `MOST_CLONED_LONG`."""
MOST_CLONED, MOST_CLONED_LONG = 10, 32


def seconds_of(bound: BoundPipeline, schedule: Schedule) -> float:
    """Return the predicted seconds of a whole schedule, by a featurizer of its own."""
    evaluator = KernelEvaluator(bound, H200, AnalyticalModel(H200), FEW_TILES)
    kernels = [describe_kernel(bound, kernel) for kernel in schedule.kernels]
    evaluator.evaluate(kernels)
    return sum(evaluator.verdict(*kernel).cost for kernel in kernels)


def cheapest_of_all(bound: BoundPipeline) -> tuple[float, int]:
    """Return the predicted seconds of the cheapest legal schedule of a pipeline, and the number of schedules.

    No kernel has two copies of one Func.
    """
    evaluator = KernelEvaluator(bound, H200, AnalyticalModel(H200), FEW_TILES)
    copies = originals(bound)
    states = [s for s in all_states(evaluator) if not any(computes_twice(copies, p.sketch) for p in s.pieces)]
    evaluator.evaluate((p.sketch, p.params) for state in states for p in state.pieces)
    costs = np.array([
        sum(evaluator.verdict(p.sketch, p.params).cost for p in state.pieces)
        if all(evaluator.may_keep(p.sketch, p.params) for p in state.pieces)
        else math.inf
        for state in states
    ])  # fmt: skip
    for k in np.argsort(costs, kind="stable").tolist():
        schedule = schedule_of(evaluator, states[k])
        if not violations(bound, schedule, H200):
            return seconds_of(bound, schedule), len(states)
    raise AssertionError("no schedule is legal")


def computes_twice(copies: Mapping[str, str], sketch: KernelSketch) -> bool:
    """Whether a kernel computes or inlines two copies of one Func."""
    funcs = {s.func for s in sketch.stages} | {location.func for location in sketch.locations} | sketch.inlined
    return len({copies.get(name, name) for name in funcs}) < len(funcs)


def with_clones(bound: BoundPipeline) -> Iterator[BoundPipeline]:
    """Yield the pipeline and all pipelines with clones: each Func's readers in any parts, the first with the original.

    No Func of ``bound`` is both an output and read by others.
    """
    partial = [bound]
    for name in reversed(list(bound.funcs)):
        extended = []
        for pipeline in partial:
            readers = consumers_of(pipeline, name)
            for numbers in itertools.product(*(range(k + 1) for k in range(len(readers)))):
                if all(n <= max(numbers[:k], default=-1) + 1 for k, n in enumerate(numbers)):
                    parts = [tuple(r for r, n in zip(readers, numbers, strict=True) if n == part)
                             for part in range(1, max(numbers, default=0) + 1)]  # fmt: skip
                    clones = (*pipeline.clones, *(FuncClone(name, part) for part in parts))
                    extended.append(clone_funcs(bound, clones))
        partial = extended
    yield from partial


@pytest.mark.parametrize(
    "seed", [pytest.param(s, marks=[] if s in SHORT else [pytest.mark.fuzz]) for s in range(GRAPHS)]
)  # fmt: skip
def test_the_cheapest_partition_is_the_cheapest_schedule(seed: int) -> None:
    bound = random_graph(seed)
    result = DynamicProgramming(WITHOUT_CLONES, FEW_TILES).search(bound, H200)
    best = result.ranked[0]
    assert not result.note
    assert not violations(bound, best.schedule, H200)
    expected, _ = cheapest_of_all(bound)
    assert seconds_of(bound, best.schedule) == pytest.approx(expected, rel=1e-9)
    assert best.seconds == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "seed", [pytest.param(s, marks=[] if s in SHORT_CLONED else [pytest.mark.fuzz]) for s in range(CLONED_GRAPHS)]
)
def test_the_cheapest_clones_are_those_of_the_cheapest_schedule(seed: int) -> None:
    bound = random_outputs(seed)
    pipelines = list(with_clones(bound))
    if len(pipelines) > (MOST_CLONED if seed in SHORT_CLONED else MOST_CLONED_LONG):
        pytest.skip(f"{len(pipelines)} pipelines with clones")
    best = DynamicProgramming(EXACT, FEW_TILES).search(bound, H200).ranked[0]
    assert not violations(bound, best.schedule, H200)
    expected = min(cheapest_of_all(pipeline)[0] for pipeline in pipelines)
    assert best.seconds == pytest.approx(expected, rel=1e-9)
    assert seconds_of(apply_rewrites(bound, best.schedule), best.schedule) == pytest.approx(expected, rel=1e-9)


def test_the_spaces_are_not_trivial() -> None:
    """Most graphs have schedules of several kinds, and neither the baseline nor the fullest fusion always wins."""
    counts, kernels = [], []
    for seed in SHORT[::2]:
        bound = random_graph(seed)
        counts.append(cheapest_of_all(bound)[1])
        kernels.append(len(DynamicProgramming(WITHOUT_CLONES, FEW_TILES).search(bound, H200).best.kernels))
    assert np.median(counts) > 50
    assert len(set(kernels)) > 2
