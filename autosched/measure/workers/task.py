"""What measuring processes are given, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.measure.backend import Backend
from autosched.measure.compile.program_version import program_version
from autosched.measure.job import Failure, Job, Prepared, Result, Status, Timing

Compiled = Prepared | Failure
"""What the compiler made of a candidate."""


@dataclass(frozen=True, slots=True)
class Task:
    """A candidate to be measured.

    Attributes:
        job: The candidate.
        is_baseline: Whether its result is the right one of its problem.
        is_recorded: Whether its time is wanted; if not, only its result is.
    """

    job: Job
    is_baseline: bool = False
    is_recorded: bool = True


def result_of(task: Task, backend: Backend, compiled: Compiled, found: Timing | Failure) -> Result:
    """Return what came of a task.

    Args:
        task: The task.
        backend: What it was measured on.
        compiled: What the compiler made of it.
        found: Its time, or why it has none.
    """
    status, timing, error = (
        (found.status, None, found.message) if isinstance(found, Failure) else (Status.OK, found, "")
    )
    kernels, compiler = (compiled.kernels, compiled.compiler) if isinstance(compiled, Prepared) else ((), "")
    job = task.job
    version = program_version(backend.generator, job.problem, job.schedule, job.target.name)
    return Result(job, backend.source, version, status, timing, error, kernels, compiler)
