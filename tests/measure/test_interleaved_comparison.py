"""Interleaved timing in a process of its own, on a device with injected faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.errors import MeasureError
from autosched.measure.backends.selection import backend_for
from autosched.measure.compare.interleaved_comparison import InterleavedComparison
from autosched.runtime.timing.interleaved import RoundsRule
from autosched.target import get_target
from tests.measure.faulty_backend import FaultyBackend, job, notes

RULE = RoundsRule(least=6, most=6)


def test_a_process_is_started_when_needed_and_kept(tmp_path: Path) -> None:
    with InterleavedComparison(FaultyBackend(str(tmp_path), devices=2), rule=RULE) as comparer:
        assert comparer.is_needed
        assert not notes(tmp_path)
        for _ in range(2):
            rounds = comparer.compare([job(number=1), job(number=2)])
            assert rounds.seconds == ((1e-3, 2e-3),) * 6
    compiled = [line for line in notes(tmp_path) if line.startswith("begin compiling")]
    assert len(compiled) == 4
    assert len({line.split()[-1] for line in compiled}) == 1


@pytest.mark.parametrize("fault", ["refused", "killed", "loses_device"])
def test_a_candidate_that_fails_ends_the_comparison_and_not_the_program(tmp_path: Path, fault: str) -> None:
    with InterleavedComparison(FaultyBackend(str(tmp_path)), rule=RULE) as comparer:
        with pytest.raises(MeasureError, match="interleaved timing failed"):
            comparer.compare([job(), job(fault)])
        assert len(comparer.compare([job(number=1)]).seconds) == 6


def test_simulated_times_need_no_repetition() -> None:
    assert not InterleavedComparison(backend_for(get_target("h200"), "simulated")).is_needed
