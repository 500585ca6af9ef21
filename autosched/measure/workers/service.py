"""Services of worker processes: compilation, measurement and interleaved timing of candidates."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path

from autosched.errors import (
    AutoschedError,
    CacheError,
    CompileError,
    DeviceLostError,
    InputError,
    LaunchError,
    ScheduleError,
)
from autosched.measure.backend import Backend, Outputs
from autosched.measure.compile.single_flight import MadeElsewhere
from autosched.measure.compile.text_cache import enable_text_cache
from autosched.measure.job import Deferred, Failure, Fatal, Job, Prepared, Status, Timing
from autosched.measure.problem import Problem
from autosched.measure.result_check import first_difference, interpreted
from autosched.runtime.timing.interleaved import Rounds, RoundsRule

_LONGEST_MESSAGE = 4000


class CompileService:
    """Compiles candidates.

    Args:
        backend: The device.
        directory: Directory of the texts that the processes of a run share.
    """

    def __init__(self, backend: Backend, directory: Path | None = None) -> None:
        self.backend = backend
        self.directory = directory

    def prepare(self, job: Job, wait: bool = True) -> Prepared | Deferred | Failure | Fatal:
        """Compile a candidate; return a failure, or without waiting a deferral, if that is not possible."""
        enable_text_cache(self.directory)
        try:
            return self.backend.prepare(job, wait=wait)
        except MadeElsewhere:
            return Deferred()
        except CacheError as error:  # compilation needs the cache
            return Fatal(str(error))
        except Exception as error:
            return as_failure(error)


class MeasureService:
    """Runs candidates; keeps the trusted result of the current problem.

    Args:
        backend: The device.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._trusted: tuple[Problem, Outputs | None] | None = None

    def trust(self, baseline: Prepared) -> Failure | None:
        """Run the baseline of a problem and trust its result, unless the interpreter's differs."""
        problem = baseline.job.problem
        try:
            outputs = self.backend.outputs(baseline)
            if outputs is not None:
                expected = interpreted(problem, baseline.job.seed)
                if expected is not None:
                    wrong = first_difference(problem, outputs, expected, same_bits=self.backend.same_bits)
                    if wrong is not None:
                        return Failure(Status.WRONG_RESULT, f"the baseline differs from the interpreter: {wrong}")
        except Exception as error:
            return as_failure(error)
        self._trusted = problem, outputs
        return None

    def time(self, prepared: Prepared) -> Timing | Failure:
        """Check a candidate's result once and time it."""
        problem = prepared.job.problem
        if self._trusted is None or self._trusted[0] != problem:
            return Failure(Status.NO_REFERENCE, f"no result of {problem.title} is known to compare with")
        try:
            outputs = self.backend.outputs(prepared)
            expected = self._trusted[1]
            if outputs is not None and expected is not None:
                same_bits = self.backend.same_bits and not prepared.job.splits_reductions
                wrong = first_difference(problem, outputs, expected, same_bits=same_bits)
                if wrong is not None:
                    return Failure(Status.WRONG_RESULT, wrong)
            return self.backend.time(prepared)
        except Exception as error:
            return as_failure(error)


class InterleavedService:
    """Times candidates interleaved in one process; their code is in the cache from an earlier measurement.

    Args:
        backend: The device.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def run(self, jobs: Sequence[Job], rule: RoundsRule) -> Rounds | Failure:
        """Return the times of candidates of one problem, or a failure."""
        try:
            return self.backend.time_interleaved([self.backend.prepare(job) for job in jobs], rule)
        except Exception as error:
            return as_failure(error)


_KINDS: tuple[tuple[type[Exception], Status], ...] = (
    (DeviceLostError, Status.CRASH),  # before LaunchError, its base class
    (LaunchError, Status.LAUNCH),
    (MemoryError, Status.LAUNCH),
    (CompileError, Status.COMPILE),
    (ScheduleError, Status.ILLEGAL),
    (InputError, Status.ILLEGAL),
)


def as_failure(error: Exception) -> Failure:
    """Return the failure of an exception."""
    for kind, status in _KINDS:
        if isinstance(error, kind):
            return Failure(status, _shortened(str(error) or type(error).__name__))
    if isinstance(error, AutoschedError):
        return Failure(Status.ERROR, _shortened(str(error)))
    return Failure(Status.ERROR, _shortened("".join(traceback.format_exception(error))))


def _shortened(text: str) -> str:
    half = _LONGEST_MESSAGE // 2
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:half]}\n[...]\n{text[-half:]}"
