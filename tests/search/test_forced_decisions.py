"""Decisions without a choice: they are applied without evaluation of intermediate kernels."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import numpy as np
import pytest

from autosched.schedule.types import Level
from autosched.search.beam.beam import BeamSearch
from autosched.search.beam.expand import Expander
from autosched.search.beam.state import State
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.cost.protocol import rounded_cost
from autosched.search.evaluate.batched import EvaluationCoroutine, Kernel, prepend_requests, run_search
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.pinned import pinned_decisions
from autosched.search.settings import SearchSettings
from autosched.search.space.option_enumeration import start_state
from tests.featurize.random_kernels import H200, bound_app

PLAIN = SearchSettings(beam_size=4, passes=1, refine=0, freeze=False)


def search_of(name: str, settings: SearchSettings = PLAIN) -> BeamSearch:
    evaluator = KernelEvaluator(bound_app(name), H200, AnalyticalModel(H200), settings)
    return BeamSearch(evaluator, np.random.default_rng(0))


@pytest.mark.parametrize("name", ["harris", "bilateral_grid", "conv_layer"])
def test_fully_pinned_pass_is_costed_in_one_batch(name: str) -> None:
    """A pass with all decisions pinned reproduces the state in one batch."""
    first = search_of(name)
    state = first.run()[0]
    again = search_of(name)
    again.frozen = pinned_decisions(first.expander.enumerator.compute_locations, state)
    (found,) = again.run()
    assert again.evaluator.counts.batches == 1
    assert again.evaluator.counts.requested <= len(state.pieces)
    assert found.cost == state.cost == pytest.approx(sum(found.costs))
    assert {(p.sketch, p.params) for p in found.pieces} == {(p.sketch, p.params) for p in state.pieces}
    assert found.levels == state.levels and found.steps == state.steps


def test_a_func_with_some_fixed_dimensions_can_be_computed_per_block() -> None:
    """Each block accumulates the grid of its columns, as in the schedule of an expert."""
    enumerator = search_of("bilateral_grid").expander.enumerator
    grid = enumerator.bound.funcs["grid"]
    assert any(f is not None for f in grid.fixed) and not grid.is_used_whole
    state = enumerator.start_state()
    for decision in enumerator.decisions():
        enumerator.prefetch([state], decision)
        if decision.func == "grid":
            break
        options = enumerator.options(state, decision, only="root")
        if options:
            state = enumerator.apply_option(state, decision, options[0], costed=False)
    placed = enumerator.options(state, decision, only="block")
    assert placed and all(o.added[0].sketch.location("grid") is not None for o in placed)


def test_states_are_costed_after_forced_decisions() -> None:
    """With half of the Funcs pinned, states have the costs of a new evaluator."""
    first = search_of("camera_pipe")
    state = first.run()[0]
    pinned = pinned_decisions(first.expander.enumerator.compute_locations, state)
    search = search_of("camera_pipe", dataclasses.replace(PLAIN, beam_size=8))
    search.frozen = {name: pinned[name] for name in list(pinned)[::2]}
    found = search.run()
    assert len(found) > 1
    cold = search_of("camera_pipe").evaluator
    for state in found:
        alone = [cold.verdict(*_evaluated(cold, (p.sketch, p.params))).cost for p in state.pieces]
        assert list(state.costs) == pytest.approx(alone)
        assert state.cost == pytest.approx(sum(alone))


def _evaluated(evaluator: KernelEvaluator, kernel: Kernel) -> Kernel:
    evaluator.evaluate([kernel])
    return kernel


@pytest.mark.parametrize("free", [("input_clamped",), ("gray", "input_clamped")])  # the output's kernel reads gray
def test_pruned_kernels_end_a_state_at_the_next_choice(free: tuple[str, ...]) -> None:
    """A pinned kernel with too much recomputation is pruned, although there was no choice."""
    settings = dataclasses.replace(PLAIN, locations=("block",))
    first = search_of("unsharp", settings)
    state = next(s for s in first.run() if s.levels["gray"] is Level.ROOT)
    (output,) = (p for p in state.pieces if p.sketch.func == "output")
    assert output.sketch.locations

    def found(most: float) -> list[State]:
        search = search_of("unsharp", dataclasses.replace(settings, max_recompute=most))
        pinned = pinned_decisions(first.expander.enumerator.compute_locations, state)
        search.frozen = {name: h for name, h in pinned.items() if name not in free}
        return search.run()

    assert found(settings.max_recompute)
    assert found(1.0) == []


def test_only_options_are_applied_without_evaluation() -> None:
    search = search_of("harris")
    expander: Expander = search.expander
    first = expander.enumerator.decisions()[0]
    offers = expander.offers([start_state()], first, {})
    (state,) = expander.apply_only_options(offers, first)
    assert search.evaluator.counts.requested == 0
    assert math.isnan(state.cost) and state.steps == 1
    second = expander.enumerator.decisions()[1]
    children = run_search(
        search.evaluator, expander.children(expander.offers([state], second, {}), second, depth=0, size=4)
    )
    assert children and all(math.isfinite(rounded_cost(c.cost)) for c in children)
    assert all(c.make().cost == pytest.approx(c.cost) for c in children)


def test_prepended_requests_join_the_first_batch() -> None:
    kernel = next(iter(search_of("blur").run()[0].pieces))
    one: Kernel = (kernel.sketch, kernel.params)

    def asking(times: int) -> EvaluationCoroutine[int]:
        for _ in range(times):
            yield [one]
        return times

    def run(times: int, others: list[Kernel]) -> tuple[list[int], int]:
        search = prepend_requests(others, asking(times))
        asked: list[int] = []
        try:
            while True:
                wanted: Iterable[Kernel] = next(search)
                asked.append(len(list(wanted)))
        except StopIteration as end:
            return asked, int(end.value)

    assert run(3, [one, one]) == ([3, 1, 1], 3)
    assert run(0, [one]) == ([1], 0)
    assert run(0, []) == ([], 0)
    assert run(2, []) == ([1, 1], 2)
