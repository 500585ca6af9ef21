"""The microbenchmarks: right results, a prediction each, all kinds of work."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from autosched.featurize.featurizer import Featurizer
from autosched.runtime.timing.interleaved import RoundsRule
from autosched.search.calibration.calibration_service import CalibrationService
from autosched.search.calibration.microbenchmarks import TINY, microbenchmarks
from autosched.search.calibration.scale_cache import predicted_seconds
from autosched.search.cost.cpu.analytical import CpuModel
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.target import get_target

CPU = dataclasses.replace(get_target("cpu"), l2_bytes=1 << 20, multiprocessors=1)
"""One core, whose kernels wake no others, with a cache so small that no array is large."""
ALL = {b.name: b for b in microbenchmarks(CPU)}


@pytest.mark.parametrize("name", ALL)
def test_results_equal_the_interpreter(name: str) -> None:
    benchmark = ALL[name]
    scheduled = benchmark.scheduled(CPU)
    expected = scheduled.compile("interpreter")(benchmark.inputs)
    np.testing.assert_allclose(scheduled.compile("cpu")(benchmark.inputs), expected, rtol=1e-5)


def test_each_has_a_prediction_and_together_they_are_of_many_kinds() -> None:
    model = CpuModel(CPU)
    large: set[str] = set()
    for name, seconds in predicted_seconds(CPU, model).items():
        assert 0 < seconds < (1e-4 if name == TINY else 1e-2)
        scheduled = ALL[name].scheduled(CPU)
        kernel = evaluated(Featurizer(scheduled.bound, CPU), scheduled.schedule.kernels[-1])
        parts = model.parts(kernel.batch_evaluation)
        most = max(float(part[0]) for part in parts.values())
        large |= {n for n, part in parts.items() if part[0] > most / 4}
    assert len(large) >= 7  # the median is one over many kinds of work


def test_the_service_times_every_microbenchmark() -> None:
    rounds = CalibrationService().run(CPU, RoundsRule(2, 2, 0.0))
    assert len(rounds.seconds) == 2
    assert all(len(row) == len(ALL) and min(row) > 0 for row in rounds.seconds)
