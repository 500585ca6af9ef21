"""Check of a program: correct programs, wrong results, refusals and exceptions."""

from __future__ import annotations

import pytest
from fuzzing import trials, witnesses
from fuzzing.check import CRASHED, REFUSED, REFUSED_LATE, REFUSED_LEGAL, RIGHT, WRONG, check_program
from fuzzing.trials import SAMPLED, Trial
from fuzzing.witnesses import Fenced

from autosched.errors import ScheduleError
from tests.fuzzing.small import TEXT, small

CPU, GPU = Trial("cpu", SAMPLED, 0), Trial("h200", "roots", 1)


def test_a_right_program_is_right_under_every_trial() -> None:
    outcome = check_program(small(), (CPU, GPU))
    assert outcome.verdict == RIGHT, outcome
    assert set(outcome.seconds) == {"reference", "cpu, sampled", "h200, roots"}


def test_one_wrong_bit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    interpreted = witnesses.interpret

    def one_bit_off(*arguments: object) -> object:
        found = interpreted(*arguments)  # type: ignore[arg-type]
        found["f1"].view("uint32")[11] ^= 1 << 31
        return found

    monkeypatch.setattr(witnesses, "interpret", one_bit_off)
    outcome = check_program(small(text=TEXT.replace("* 2.5", "* 0.0")), (CPU, GPU))
    assert outcome.verdict == WRONG
    assert [f.trial for f in outcome.failures] == [CPU, GPU]
    assert "f1: 1 of 12 values differ, the first at (11,)" in outcome.failures[0].message


def test_unwritten_points_are_found() -> None:
    fenced = Fenced.full_of_garbage((3,), witnesses.np.dtype("float32"))
    assert (fenced.array.view("uint8") == witnesses.GARBAGE_BYTE).all()
    assert fenced.intact
    fenced.memory[-1] = 0
    assert not fenced.intact


def test_a_refusal_is_a_failure_only_where_the_program_must_be_legal() -> None:
    program = small(text=TEXT.replace("(17,)", "(3,)"))
    assert check_program(program, (CPU,)).verdict == REFUSED
    outcome = check_program(program, (CPU,), legal=True)
    assert outcome.verdict == REFUSED_LEGAL
    assert outcome.failures[0].message.startswith("BoundsError: ")


@pytest.mark.parametrize(("error", "kind"), [(OverflowError("far"), CRASHED), (ScheduleError("no"), REFUSED_LATE)])
def test_an_exception_of_the_search_is_a_failure(monkeypatch: pytest.MonkeyPatch, error: Exception, kind: str) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(trials.au, "schedule", fail)
    failure = check_program(small(), (GPU,)).failures[0]
    assert failure.kind == kind
    assert failure.message == f"{type(error).__name__}: {error}"
    assert failure.signature == (kind, type(error).__name__, "test_check.py:fail", "h200", "roots")


def test_a_warning_of_the_search_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = trials.au.schedule

    def warn(*arguments: object, **options: object) -> object:
        trials.warnings.warn("the beam search failed; another schedule is taken", stacklevel=1)
        return schedule(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(trials.au, "schedule", warn)
    assert check_program(small(), (GPU,)).verdict == CRASHED
