"""Registers of compiled kernels in predicted residency."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import autosched
from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.schema import INDEX
from autosched.search.cost.compiled_registers import with_compiled_registers
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.cost.protocol import CostModelWrapper
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.explain import explain
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.search.settings import SearchSettings
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.strategies.protocol import Beam
from autosched.search.tune.compiled_residency import with_compiled_residency
from autosched.search.tune.spill_filter import SpillTable, compiler_problem
from autosched.target import get_target

H200 = get_target("h200")
MODEL = AnalyticalModel(H200)
APP = get_app("unsharp")
BOUND = bind(APP.build(), APP.shapes({"H": 700, "W": 900}))
RESIDENT = INDEX["resident_blocks"]


@dataclass(frozen=True)
class LearnedModel(CostModelWrapper):
    """A model that is not analytical."""


@pytest.mark.parametrize(("registers", "blocks"), [(32, 8), (64, 4), (128, 2), (255, 1)])
def test_registers_limit_resident_blocks(registers: int, blocks: int) -> None:
    """Blocks of 256 threads share 65,536 registers."""
    kernel = schedule_roots(BOUND, H200).kernels[-1]
    known = evaluated(Featurizer(BOUND, H200), kernel)
    batch = known.batch_evaluation
    assert batch.features[0, 0, INDEX["num_warps_per_block"]] == 8 and batch.features[0, 0, RESIDENT] == 8
    limited = with_compiled_registers(MODEL, batch, registers)
    assert limited.features[0, 0, RESIDENT] == blocks
    others = np.arange(batch.features.shape[-1]) != RESIDENT
    np.testing.assert_array_equal(limited.features[..., others], batch.features[..., others])
    assert batch.features[0, 0, RESIDENT] == 8, "features of the candidate stay"
    assert with_compiled_registers(LearnedModel(MODEL), batch, registers) is batch
    assert with_compiled_registers(MODEL, batch, None) is batch


def test_explanation_has_the_residency_of_compiled_kernels() -> None:
    result = Beam(SearchSettings(beam_size=2, passes=1, refine=0)).search(BOUND, H200, cost=MODEL)
    kernels = len(result.ranked[0].schedule.kernels)
    free, tight = explain(result), explain(result, [255] * kernels)
    assert all(k.registers is None for k in free) and all(k.registers == 255 for k in tight)
    for before, after in zip(free, tight, strict=True):
        assert before.resident_blocks is not None and after.resident_blocks is not None
        assert after.resident_blocks < before.resident_blocks and after.features == before.features
        assert after.seconds > before.seconds and after.components["latency"] > before.components["latency"]
    assert [k.seconds for k in explain(result, [16] * kernels)] == [k.seconds for k in free]


def test_ranked_schedules_have_the_times_of_compiled_kernels() -> None:
    result = Beam(SearchSettings(beam_size=2, passes=1, refine=0)).search(BOUND, H200, cost=MODEL, count=3)
    table = SpillTable(BOUND, H200)
    assert with_compiled_residency(result.ranked, table) == result.ranked, "nothing is compiled"
    best = result.ranked[0].schedule
    table._registers |= {(best.rewrites, kernel): 255 for kernel in best.kernels}
    again = with_compiled_residency(result.ranked, table)
    costs = [r.seconds for r in again]
    assert costs == sorted(costs)
    slower = next(r for r in again if r.schedule == best)
    kernels = explain(result, [255] * len(best.kernels))
    assert slower.seconds == pytest.approx(sum(k.seconds for k in kernels), rel=1e-4)  # costs are rounded
    assert slower.seconds > result.ranked[0].seconds
    learned = replace(result.ranked[0], evaluator=KernelEvaluator(BOUND, H200, LearnedModel(MODEL), SearchSettings()))
    assert with_compiled_residency([learned], table) == (learned,)


def test_modes_predict_with_the_registers_of_compiled_kernels() -> None:
    if compiler_problem(H200):
        pytest.skip("no CUDA compiler")
    shapes = APP.shapes({"H": 700, "W": 900})
    found = autosched.schedule(
        APP.build(), shapes, "h200", cost="analytical", effort="fast", top_k=3, measure="simulated", reuse=False
    )
    assert found.search_result is not None
    for ranked in found.search_result.ranked[:3]:
        assert ranked.evaluator is not None
        table = SpillTable(found.bound, H200)
        table.of(ranked.schedule)
        known = zip(ranked.schedule.kernels, table.registers(ranked.schedule), strict=True)
        times = [evaluated(ranked.evaluator.featurizer, k).with_registers(MODEL, n).seconds(MODEL) for k, n in known]
        assert ranked.seconds == pytest.approx(sum(times), rel=1e-4)
