"""The factor of the microbenchmarks: medians, the time of a call, refused spreads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.runtime.timing.interleaved import Rounds
from autosched.search.calibration.processor_scale import MOST_SPREAD, ProcessorScale, fit_scale, usual_factor
from autosched.search.cost.cpu.coefficients import MICROBENCHMARK_FACTORS
from autosched.target import get_target

PREDICTED = {"tiny": 1e-6, "one": 1e-4, "two": 2e-4, "three": 4e-4}


def rounds(factors: list[float], call_s: float, pace: list[float]) -> Rounds:
    """Return times that are a factor of the predictions, and of a round's pace, and a call."""
    kernels = np.array(factors) * np.array(list(PREDICTED.values()))
    return Rounds(tuple(tuple((kernels * p + call_s).tolist()) for p in pace))


def test_the_factor_is_the_median_of_the_microbenchmarks() -> None:
    scale = fit_scale(PREDICTED, rounds([1.7, 1.5, 1.7, 9.0], 2e-5, [1.0] * 11), "tiny")
    assert scale.factor == pytest.approx(1.7, rel=0.01)
    assert scale.call_s == pytest.approx(2e-5, rel=0.01)
    assert scale.spread == pytest.approx(0)
    assert scale.seconds(1e-3) == pytest.approx(1.7e-3 + 2e-5, rel=0.01)
    assert str(scale) == "scaled by 1.70 (measured on this processor)"


def test_the_factor_is_relative_to_that_of_the_machine_of_the_coefficients() -> None:
    measured = rounds([1.7, 1.5, 1.7, 1.8], 2e-5, [1.0] * 11)
    assert fit_scale(PREDICTED, measured, "tiny", usual=1.7).factor == pytest.approx(1.0, rel=0.01)
    known = next(iter(MICROBENCHMARK_FACTORS))
    one, several = (usual_factor(replace(get_target("cpu"), processor=known, multiprocessors=n)) for n in (1, 4))
    assert (one, several) == MICROBENCHMARK_FACTORS[known]
    assert usual_factor(replace(get_target("cpu"), processor="")) == 1


def test_a_slow_round_changes_nothing() -> None:
    scale = fit_scale(PREDICTED, rounds([1, 1.5, 1.7, 1.8], 2e-5, [1.0] * 10 + [3.0]), "tiny")
    assert scale.is_measured
    assert scale.factor == pytest.approx(1.7, rel=0.01)


@pytest.mark.parametrize(("low", "high", "is_used"), [(0.97, 1.03, True), (0.9, 1.1, False)])
def test_times_that_spread_are_refused(low: float, high: float, is_used: bool) -> None:
    scale = fit_scale(PREDICTED, rounds([1, 1.5, 1.7, 1.8], 0.0, [low, high] * 6), "tiny")
    assert scale.is_measured == is_used == (scale.spread <= MOST_SPREAD)
    assert is_used or scale.seconds(1e-3) == 1e-3
    assert is_used or "spread by 20 %, over 10 %; run 'autosched calibrate'" in str(scale)


def test_microbenchmarks_as_small_as_a_call_do_not_count() -> None:
    predicted = {"tiny": 1e-6, "small": 1.5e-6, "large": 1e-3}
    scale = fit_scale(predicted, Rounds(((2e-5, 9e-5, 1.5e-3 + 2e-5),) * 11), "tiny")
    assert scale.factor == pytest.approx(1.5, rel=0.01)


def test_the_default_changes_nothing() -> None:
    assert ProcessorScale().seconds(1.5) == 1.5
    assert str(ProcessorScale()) == ""
