"""Check of one program: build, bind, interpret, and run its trials."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import AutoschedError
from autosched.schedule.io.serialise import to_json
from fuzzing.program import Built, Program, build
from fuzzing.refusals import reason
from fuzzing.trials import Trial, find_schedule
from fuzzing.witnesses import Arrays, Disagreement, check_schedule, interpreted

MOST_POINTS = 40_000
"""Most evaluations of a program; larger programs are not run."""
RIGHT, REFUSED, TOO_LARGE = "right", "refused", "too large"
WRONG, CRASHED, REFUSED_LEGAL, REFUSED_LATE = "wrong", "crashed", "refused though legal", "refused after binding"
HUNG, DIED = "hung", "died"
FAILURES = (WRONG, CRASHED, REFUSED_LEGAL, REFUSED_LATE, HUNG, DIED)


@dataclass(frozen=True)
class Failure:
    """A failure of a program.

    Attributes:
        kind: One of `FAILURES`.
        message: The exception or the difference.
        place: Function that raised the exception; empty for a difference.
        trial: The trial, None if the program fails before any.
        schedule: JSON form of the schedule, if any.
    """

    kind: str
    message: str
    place: str = ""
    trial: Trial | None = None
    schedule: str = ""

    @property
    def signature(self) -> tuple[str, ...]:
        """Key that is equal for failures of the same kind."""
        where = (self.trial.target, self.trial.scheduler) if self.trial else ()
        what = "" if self.kind == WRONG else self.message.partition(":")[0]
        return (self.kind, what, self.place, *where)


@dataclass(frozen=True)
class Outcome:
    """Result of a program.

    Attributes:
        verdict: ``right``, ``refused``, ``too large``, or the kind of its first failure.
        reason: Reason of a refusal.
        failures: Its failures.
        seconds: Time of each trial, and of the preceding steps as ``reference``.
    """

    verdict: str
    reason: str = ""
    failures: tuple[Failure, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)


def check_program(program: Program, trials: Sequence[Trial], *, legal: bool = False) -> Outcome:
    """Check a program.

    Args:
        program: The program.
        trials: Trials of schedules.
        legal: Whether a refusal is a failure.
    """
    started = time.perf_counter()
    try:
        built = build(program)
        bound = bind(built.pipeline, built.shapes, built.params)
        if points(bound) > MOST_POINTS:
            return Outcome(TOO_LARGE)
    except AutoschedError as error:
        failures = (Failure(REFUSED_LEGAL, reason(error), place_of(error)),) if legal else ()
        return Outcome(REFUSED_LEGAL if legal else REFUSED, reason(error), failures)
    except Exception as error:
        return _failed(_failure(error, None))
    try:
        expected = interpreted(built)
    except Exception as error:
        return _failed(_failure(error, None))
    seconds = {"reference": time.perf_counter() - started}
    results: list[Failure] = []
    for trial in trials:
        begun = time.perf_counter()
        failure = _tried(built, bound, trial, expected)
        results += [failure] if failure else []
        seconds[str(trial)] = time.perf_counter() - begun
    return Outcome(results[0].kind if results else RIGHT, failures=tuple(results), seconds=seconds)


def _tried(built: Built, bound: BoundPipeline, trial: Trial, expected: Arrays) -> Failure | None:
    text = ""
    try:
        schedule = find_schedule(built, bound, trial)
        text = to_json(bound, schedule)
        check_schedule(built, bound, schedule, expected, emulate=trial.target != "cpu", seed=trial.seed)
    except Exception as error:
        return _failure(error, trial, text)
    return None


def _failed(failure: Failure) -> Outcome:
    return Outcome(failure.kind, failures=(failure,))


def _failure(error: Exception, trial: Trial | None, schedule: str = "") -> Failure:
    if isinstance(error, Disagreement):
        return Failure(WRONG, str(error), "", trial, schedule)
    kind = REFUSED_LATE if isinstance(error, AutoschedError) else CRASHED
    message = f"{type(error).__name__}: {' '.join(str(error).split())[:600]}"
    return Failure(kind, message, place_of(error), trial, schedule)


def place_of(error: BaseException) -> str:
    """Return the module and function that raised an exception."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "fuzzing" not in f.filename]
    frame = frames[-1] if frames else traceback.extract_tb(error.__traceback__)[-1]
    return f"{os.path.basename(frame.filename)}:{frame.name}"


def points(bound: BoundPipeline) -> int:
    """Return the number of evaluations that compute every Func once."""
    return sum(prod(d.extent for d in stage.loops) for func in bound.funcs.values() for stage in func.stages)
