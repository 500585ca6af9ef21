"""Features of kernels with linear threads against counts of the traced emulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.featurize.validation import FeatureChecker, SketchedKernel, app_problem
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.types import Schedule
from autosched.search.beam.state import PartialKernel, State
from autosched.search.beam.to_schedule import schedule_of
from autosched.search.strategies.forma.forma_strategy import Forma
from tests.featurize.random_kernels import H200, bound_app, drawn_kernels, states_of


@pytest.mark.parametrize("name", ["harris", "unsharp", "canny", "bilateral_grid", "denoise", "hist"])
def test_features_match_the_emulator(name: str) -> None:
    """Transactions, bytes and lanes of warps that are laid out over the threads of each nest."""
    problem = app_problem(name)
    states = states_of(problem.bound, varied=True)
    linear = 0

    def draw(rng: np.random.Generator) -> tuple[Sequence[SketchedKernel], Schedule] | None:
        nonlocal linear
        drawn = states.draw_legal(rng)
        if drawn is None:
            return None
        pieces = [replace(p, sketch=replace(p.sketch, linear_threads=True)) for p in drawn[0].pieces]
        state: State = replace(drawn[0], pieces=tuple(pieces))
        schedule = schedule_of(states.evaluator, state)
        if any(kernel_violations(problem.bound, k, H200) for k in schedule.kernels):
            return drawn[0].pieces, drawn[1]
        linear += sum(k.linear_threads for k in schedule.kernels)
        return state.pieces, schedule

    tally = FeatureChecker(problem, H200, draw).check_all(range(3))
    assert tally.failures == []
    assert tally.equal["threads"] == tally.compared["threads"] == tally.kernels > 0
    assert linear > 0
    exact = [what for what in tally.compared if what.endswith("sectors, exact")]
    assert exact and all(tally.equal[what] == tally.compared[what] for what in exact)


def test_fewer_warps_are_active() -> None:
    """Canny's 36 x 12 points of a stage in a block of 42 x 18: 16 warps of rows of 42, 14 of a linear index."""
    bound = bound_app("canny")
    schedule = Forma().search(bound, H200).best
    active = {}
    for linear in (False, True):
        sketch, params = describe_kernel(bound, replace(schedule.kernels[0], linear_threads=linear))
        assert sketch.linear_threads is linear
        featurizer = states_of(bound).evaluator.featurizer
        model = featurizer.model(sketch)
        evaluation = featurizer.evaluate([model], [np.array([params], np.int64)])
        active[linear] = float(evaluation.features[..., INDEX["num_active_warps_per_block"]].sum())
    assert active[True] < active[False]


def test_a_kernel_gives_its_sketch_back() -> None:
    for drawn in drawn_kernels("harris", 3):
        sketch = replace(drawn.piece.sketch, linear_threads=True)
        kernel = replace(drawn, piece=PartialKernel(sketch, drawn.piece.params, tiled=True)).kernel
        assert kernel.linear_threads
        assert describe_kernel(drawn.featurizer.bound, kernel)[0].linear_threads
