"""Tasks of measuring processes, and their results."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.measure.backend import Backend
from autosched.measure.compile.program_version import program_version
from autosched.measure.job import Failure, Job, Prepared, Result, Status, Timing

Compiled = Prepared | Failure
"""Result of compiling a candidate."""


@dataclass(frozen=True, slots=True)
class Task:
    """A candidate to be measured.

    Attributes:
        job: The candidate.
        is_baseline: Whether its result is the trusted one of its problem.
        is_recorded: Whether it is timed; otherwise only its result is needed.
    """

    job: Job
    is_baseline: bool = False
    is_recorded: bool = True


def result_of(task: Task, backend: Backend, compiled: Compiled, outcome: Timing | Failure) -> Result:
    """Return the result of a task.

    Args:
        task: The task.
        backend: The device.
        compiled: The result of compiling it.
        outcome: Its time or failure.
    """
    status, timing, error = (
        (outcome.status, None, outcome.message) if isinstance(outcome, Failure) else (Status.OK, outcome, "")
    )
    kernels, compiler = (compiled.kernels, compiled.compiler) if isinstance(compiled, Prepared) else ((), "")
    job = task.job
    version = program_version(backend.generator, job.problem, job.schedule, job.target.name)
    return Result(job, backend.source, version, status, timing, error, kernels, compiler)
