"""Costs of nests on a CPU that sketches share: the same as without sharing, for every candidate of a search."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.search.beam.beam import BeamSearch
from autosched.search.cost.cpu.analytical import CpuModel
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import SearchSettings
from tests.search.cpu_cases import CPU

SETTINGS = SearchSettings(beam_size=2, passes=1, freeze=False, refine=1)


@pytest.mark.parametrize("name", ["harris", "bilateral_grid", "depthwise_separable_conv", "attention", "hist"])
def test_shared_costs_equal_those_of_each_sketch_alone(name: str) -> None:
    app = get_app(name)
    bound = bind(app.build(), app.shapes(app.small_sizes))
    evaluator = KernelEvaluator(bound, CPU, CpuModel(CPU), SETTINGS)
    BeamSearch(evaluator, np.random.default_rng(0)).run()
    sketches = list(evaluator._verdicts)
    assert len(sketches) > 20
    for sketch in sketches[:: max(len(sketches) // 40, 1)]:
        alone = KernelEvaluator(bound, CPU, CpuModel(CPU), SETTINGS)
        candidates = [params for params, verdict in evaluator.verdicts(sketch).items() if np.isfinite(verdict.cost)][
            :20
        ]
        alone.evaluate([(sketch, params) for params in candidates])
        for params in candidates:
            assert alone.verdict(sketch, params).cost == evaluator.verdict(sketch, params).cost
