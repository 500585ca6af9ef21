"""The cheapest schedule of fusion by dynamic programming is the cheapest of all schedules of the same space.

The witness enumerates whole schedules: every option of every decision. The legality of whole schedules and the model
decide; no group is costed.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Schedule
from autosched.search.beam.to_schedule import schedule_of
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.fusion.settings import EXACT
from autosched.search.strategies.protocol import DynamicProgramming
from autosched.target import get_target
from tests.search.fusion.random_graphs import FEW_TILES, MOST_FUNCS, all_states, random_graph

H200 = get_target("h200")
GRAPHS = 200
SHORT = [seed for seed in range(GRAPHS) if len(random_graph(seed).funcs) <= MOST_FUNCS - 2][:20]
"""Random graphs outside of long runs, all of them small."""


def seconds_of(bound: BoundPipeline, schedule: Schedule) -> float:
    """Return the predicted seconds of a whole schedule, by a featurizer of its own."""
    evaluator = KernelEvaluator(bound, H200, AnalyticalModel(H200), FEW_TILES)
    kernels = [describe_kernel(bound, kernel) for kernel in schedule.kernels]
    evaluator.evaluate(kernels)
    return sum(evaluator.verdict(*kernel).cost for kernel in kernels)


def cheapest_of_all(bound: BoundPipeline) -> tuple[float, int]:
    """Return the predicted seconds of the cheapest legal schedule, and the number of schedules."""
    evaluator = KernelEvaluator(bound, H200, AnalyticalModel(H200), FEW_TILES)
    states = list(all_states(evaluator))
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


@pytest.mark.parametrize(
    "seed", [pytest.param(s, marks=[] if s in SHORT else [pytest.mark.fuzz]) for s in range(GRAPHS)]
)  # fmt: skip
def test_the_cheapest_partition_is_the_cheapest_schedule(seed: int) -> None:
    bound = random_graph(seed)
    result = DynamicProgramming(EXACT, FEW_TILES).search(bound, H200)
    best = result.ranked[0]
    assert not result.note
    assert not violations(bound, best.schedule, H200)
    expected, _ = cheapest_of_all(bound)
    assert seconds_of(bound, best.schedule) == pytest.approx(expected, rel=1e-9)
    assert best.seconds == pytest.approx(expected, rel=1e-9)


def test_the_spaces_are_not_trivial() -> None:
    """Most graphs have schedules of several kinds, and neither the baseline nor the fullest fusion always wins."""
    counts, kernels = [], []
    for seed in SHORT[::2]:
        bound = random_graph(seed)
        counts.append(cheapest_of_all(bound)[1])
        kernels.append(len(DynamicProgramming(EXACT, FEW_TILES).search(bound, H200).best.kernels))
    assert np.median(counts) > 50
    assert len(set(kernels)) > 2
