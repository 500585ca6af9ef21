"""The script that compares predictions with times: its halves and its figures."""

from __future__ import annotations

import math

import pytest
from benchmarks.prediction_cases import halves
from benchmarks.predictions import PredictionRow, SchedulePrediction, scaled_row

from autosched.search.calibration.processor_scale import ProcessorScale


def row(predicted: list[float], measured: list[float]) -> PredictionRow:
    kinds = ["roots", *["search"] * (len(predicted) - 1)]
    schedules = [SchedulePrediction(*one) for one in zip(kinds, predicted, measured, strict=True)]
    return PredictionRow("group", "name", schedules)


def test_a_seed_draws_the_same_half_in_any_order() -> None:
    names = [f"p{k:02}" for k in range(16)]
    worked, held_out = halves(names, 2026)
    assert (worked, held_out) == halves(names[::-1], 2026) != halves(names, 1)
    assert sorted(worked + held_out) == names and len(held_out) == 8


def test_figures_of_a_pipeline() -> None:
    times = row([4.0, 2.0, 1.0], [4.0, 3.0, 2.0])
    assert times.off == 1.5  # of the first schedule of the search
    assert times.off_by_schedule == pytest.approx(3 ** (1 / 3))
    assert times.spread == 2
    assert times.rank_correlation == pytest.approx(1)
    assert scaled_row(times, ProcessorScale(1.5)).off == 1


def test_times_that_hardly_differ_have_no_rank_correlation() -> None:
    assert math.isnan(row([4.0, 2.0, 1.0], [1.1, 1.0, 1.2]).rank_correlation)
