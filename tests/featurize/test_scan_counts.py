"""Features of scans by blocks, as a search schedules them, against counts of the traced emulator."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import autosched
from autosched import Input, Pipeline, float32
from autosched.featurize.validation import FeatureChecker, ValidationProblem
from autosched.lang.idioms import cumsum
from autosched.schedule.types import Level
from autosched.search.results import RankedSchedule
from autosched.target import get_target

H200 = get_target("h200")


LENGTH = 1_000_000


@cache
def searched() -> RankedSchedule:
    prefix = Pipeline(cumsum(Input("a", float32, 1), x=(0, LENGTH)).over(x=(0, LENGTH)))
    found = autosched.schedule(prefix, {"a": (LENGTH,)}, H200, cost="analytical", reuse=False)
    assert found.search_result is not None
    return next(r for r in found.search_result.ranked if r.state is not None)


@pytest.mark.parametrize("vectors", [False, True])
def test_a_scan_of_chunks_in_registers_counts_as_in_the_emulator(vectors: bool) -> None:
    best = searched()
    assert best.schedule.scans and best.schedule.levels["cumsum_block"] is Level.THREAD
    assert best.state is not None and best.evaluator is not None
    arrays = {"a": np.arange(LENGTH, dtype=np.float32)}
    problem = ValidationProblem(best.evaluator.bound, arrays, {})
    drawn = best.state.pieces, best.schedule
    checker = FeatureChecker(problem, H200, lambda _: drawn, vectors=vectors)
    checker.check(0)
    tally = checker.tally
    assert tally.kernels == len(best.schedule.kernels)
    of_result = [text for text in (*tally.failures, *tally.notes) if "(cumsum)" in text]
    # as written, loads of carries and bank conflicts of clamped indices are approximations
    assert [text for text in of_result if vectors or ("shared" in text and "requests" in text)] == []
