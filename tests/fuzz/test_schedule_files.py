"""Changed schedule files are refused with a reason, or compute the same values as the interpreter."""

from __future__ import annotations

import pytest

from tests.fuzz.choices import Choices
from tests.fuzz.pipelines import random_case
from tests.fuzz.schedule_files import PIPELINES, Tally, case_of, check_mutations


def test_changed_schedule_files_are_refused_or_right() -> None:
    tally = Tally()
    for number in range(2 * len(PIPELINES)):
        check_mutations(case_of(number), number, 30, tally, run=1)
    assert tally.counts["files"] == 60 * len(PIPELINES)
    assert tally.counts["refused"] > tally.counts["accepted"] > tally.counts["run"] >= len(PIPELINES)


@pytest.mark.fuzz
@pytest.mark.parametrize("shard", range(20))
def test_many_changed_schedule_files_are_refused_or_right(shard: int) -> None:
    tally = Tally()
    for number in range(20 * shard, 20 * shard + 20):
        check_mutations(case_of(number), number, 100, tally)
    assert tally.counts["run"] >= 20


@pytest.mark.fuzz
@pytest.mark.parametrize("shard", range(10))
def test_changed_files_of_random_pipelines_are_refused_or_right(shard: int) -> None:
    tally = Tally()
    for number in range(20 * shard, 20 * shard + 20):
        check_mutations(random_case(Choices.from_seed(number)), number, 60, tally, run=4)
    assert tally.counts["run"] >= 10
