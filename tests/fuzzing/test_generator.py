"""Numbered programs: deterministic, of every class, and almost all accepted."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from fuzzing.families import FAMILIES, draw_family, write_program
from fuzzing.program import build, input_array
from fuzzing.trials import DEFAULT, DEFAULT_EVERY, SAMPLED, STRATEGIES, trials_of

from autosched.analysis.bind import bind
from autosched.errors import AutoschedError
from autosched.lang.dtypes import float32, uint8
from tests.fuzzing.small import small

LEAST_ACCEPTED = 0.8
SURFACE = (
    "au.select(", "au.cast(", "au.clamp(", "au.argmax(", "au.argmin(", "au.sum(", "au.prod(", "au.maximum(",
    "au.minimum(", "au.undef(", ".mirrored(", ".mirrored_without_edge(", ".wrapped(", ".constant(", ".clamped(",
    "Param(", "RDom(", ".shape[", "au.hash_u32(", " // ", " % ", " << ", " >> ", " / ", "[()]", "~", "-0.0",
)  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_a_number_gives_the_same_program_every_time(family: str) -> None:
    assert write_program(family, 3) == write_program(family, 3)
    assert len({write_program(family, n).text for n in range(8)}) > 4


def test_every_class_is_drawn_and_most_programs_are_accepted() -> None:
    families: Counter[str] = Counter()
    accepted = 0
    text = ""
    for number in range(400):
        family = draw_family(number)
        program = write_program(family, number)
        families[family] += 1
        text += program.text
        try:
            built = build(program)
            bind(built.pipeline, built.shapes, built.params)
        except AutoschedError:
            continue
        accepted += 1
    assert set(families) == set(FAMILIES)
    assert accepted >= LEAST_ACCEPTED * 400
    assert not [what for what in SURFACE if what not in text]


def test_each_program_gets_a_random_and_a_searched_schedule_for_each_target() -> None:
    drawn: Counter[str] = Counter()
    for number in range(2000):
        trials = trials_of(number)
        assert [(t.target, t.scheduler == SAMPLED) for t in trials] == [
            ("cpu", True), ("cpu", False), ("h200", True), ("h200", False),
        ]  # fmt: skip
        drawn.update(t.scheduler for t in trials)
    assert set(drawn) == {SAMPLED, DEFAULT, *STRATEGIES}
    assert 0.5 < drawn[DEFAULT] / 2 / (2000 / DEFAULT_EVERY) < 1.5


def test_inputs_have_extremes_of_their_type() -> None:
    values = input_array(small(), "a0", float32, (400,))
    assert np.isnan(values).any()
    assert np.isinf(values).any()
    assert (np.signbit(values) & (values == 0)).any()
    assert {0, 255} <= set(input_array(small(), "a1", uint8, (400,)).tolist())
