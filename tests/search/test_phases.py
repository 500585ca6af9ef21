"""Search in one phase: a compute location at root includes its tiling."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.errors import InputError
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Level
from autosched.search.beam.beam import BeamSearch
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import SearchSettings
from autosched.search.space.option_enumeration import OptionEnumerator, start_state
from autosched.search.strategies.protocol import Beam
from autosched.target import get_target
from tests.schedule.corner_cases import CORNER_CASES

H200 = get_target("h200")
ONE = SearchSettings(beam_size=4, passes=2, phases=1, refine=0)


def evaluator_of(name: str, settings: SearchSettings) -> KernelEvaluator:
    app = get_app(name)
    pipeline, params = app.configure({})
    return KernelEvaluator(bind(pipeline, app.shapes(app.small_sizes), params), H200, AnalyticalModel(H200), settings)


@pytest.mark.parametrize("name", ["blur", "unsharp", "harris", "hist", "iir_blur", "bilateral_grid"])
@pytest.mark.parametrize(
    "settings",
    [
        ONE,
        dataclasses.replace(ONE, freeze=False),
        dataclasses.replace(ONE, sampling="exhaustive"),
        dataclasses.replace(ONE, refine=1),
    ],
    ids=["sampling", "no freezing", "exhaustive", "refined"],
)
def test_one_phase_finds_legal_schedules(name: str, settings: SearchSettings) -> None:
    app = get_app(name)
    pipeline, params = app.configure({})
    bound = bind(pipeline, app.shapes(app.small_sizes), params)
    found = Beam(settings).search(bound, H200, count=3)
    assert found.note == ""
    assert all(violations(bound, r.schedule, H200) == [] for r in found.ranked)


@pytest.mark.parametrize("name", CORNER_CASES)
def test_one_phase_finds_legal_schedules_of_unusual_pipelines(name: str) -> None:
    bound = CORNER_CASES[name]().bound()
    assert violations(bound, Beam(ONE).search(bound, H200).best, H200) == []


def test_one_phase_options_at_root_include_every_tiling() -> None:
    one, two = (OptionEnumerator(evaluator_of("harris", dataclasses.replace(ONE, phases=n))) for n in (1, 2))
    assert [d.group for d in one.decisions()] == [None] * len(one.bound.funcs)
    output, tiling = two.decisions()[:2]
    placed = two.options(start_state(), output)
    assert [o.kind for o in placed] == ["root"]
    two.evaluator.evaluate((p.sketch, p.params) for o in placed for p in o.added)
    tilings = two.options(two.apply_option(start_state(), output, placed[0]), tiling)
    together = one.options(start_state(), output)
    assert {o.kind for o in together} == {"root"}
    assert [o.added[-1].params for o in together] == [o.added[-1].params for o in tilings]
    assert all(p.tiled for o in together for p in o.added)


def test_further_kernels_of_a_func_have_their_own_tiling_decisions() -> None:
    enumerator = OptionEnumerator(evaluator_of("hist", ONE))
    several = {n: len(enumerator.compute_locations.root_sketches(f)) for n, f in enumerator.bound.funcs.items()}
    assert max(several.values()) > 1
    for name, count in several.items():
        assert [d.group for d in enumerator.decisions() if d.func == name] == [None, *range(1, count)]


def test_frozen_funcs_keep_their_tiles() -> None:
    search = BeamSearch(evaluator_of("harris", dataclasses.replace(ONE, passes=3)), np.random.default_rng(0))
    found = search.run()
    assert search.frozen
    for name, pinned in search.frozen.items():
        for state in found[:4]:
            if pinned.level is Level.ROOT and state.levels[name] is Level.ROOT:
                own = [p for p in state.pieces if p.sketch.func == name]
                layout = search.expander.enumerator.compute_locations.layout(own[0].sketch)
                assert own[0].params[: layout.root_serial.stop] == pinned.tilings[0]


def test_other_numbers_of_phases_are_refused() -> None:
    with pytest.raises(InputError, match="phases is 3"):
        SearchSettings(phases=3)
    with pytest.raises(InputError, match="refine is -1"):
        SearchSettings(refine=-1)
