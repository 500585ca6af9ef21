"""A candidate and its states: job, compiled code, time or failure, result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from autosched.measure.compile.content_keys import digest, schedule_text
from autosched.measure.problem import Problem
from autosched.runtime.timing.durations import format_time
from autosched.schedule.io.serialise import from_json
from autosched.schedule.types import Schedule
from autosched.target import Target


class Status(StrEnum):
    """Outcome of the measurement of a candidate."""

    OK = "ok"
    ILLEGAL = "illegal"
    """The schedule is not legal for the pipeline, its shapes or the target."""
    COMPILE = "compile"
    """The compiler refused the code."""
    COMPILE_TIMEOUT = "compile_timeout"
    COMPILE_CRASH = "compile_crash"
    """The compiler's process ended."""
    LAUNCH = "launch"
    """The device refused a kernel, or memory ran out."""
    TIMEOUT = "timeout"
    """The candidate did not end in time; its process was killed."""
    CRASH = "crash"
    """The measuring process ended, or a kernel failed and the device was lost."""
    WRONG_RESULT = "wrong_result"
    """An output differs from the trusted result."""
    NO_REFERENCE = "no_reference"
    """The baseline failed, so there is no trusted result."""
    ERROR = "error"
    """Any other failure: a bug of this library, with its traceback."""


@dataclass(frozen=True, slots=True)
class Job:
    """A candidate to be measured.

    Attributes:
        problem: The pipeline with its shapes.
        schedule: One line of JSON; see `Job.of`.
        target: The schedule's target.
        seed: Seed of the inputs, and of the noise of a simulated device.
        origin: Origin of the schedule, such as ``random`` or ``beam``.
    """

    problem: Problem
    schedule: str
    target: Target
    seed: int = 0
    origin: str = ""

    @classmethod
    def of(cls, problem: Problem, schedule: Schedule, target: Target, *, seed: int = 0, origin: str = "") -> Job:
        """Return the job that measures a schedule of a problem."""
        return cls(problem, schedule_text(problem.bind(), schedule), target, seed, origin)

    def __repr__(self) -> str:
        origin = f" from {self.origin}" if self.origin else ""
        return f"<Job {self.problem!r}: schedule {self.schedule_hash[:12]}{origin} for {self.target.name}>"

    @property
    def schedule_hash(self) -> str:
        """SHA-256 of the schedule's text, in hexadecimal."""
        return digest(self.schedule)

    @property
    def splits_reductions(self) -> bool:
        """Whether the schedule has windows, scans or rfactors, which change the order of floating-point sums."""
        document = json.loads(self.schedule)
        return any(document.get(key) for key in ("windows", "scans", "splits"))

    def read_schedule(self) -> Schedule:
        """Return the schedule as an object.

        Raises:
            ScheduleError: If the text is no schedule of the problem's pipeline.
        """
        return from_json(self.schedule, self.problem.bind())


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """Compiled properties of a kernel.

    Attributes:
        key: Key of the computation; see `autosched.measure.compile.content_keys.kernel_keys`.
        text: SHA-256 of its emitted text.
        registers: 32-bit registers per thread; None if unknown.
        spill_bytes: Register bytes that a thread spills to local memory; None if unknown.
    """

    key: str
    text: str
    registers: int | None = None
    spill_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A compiled job; can be pickled.

    Attributes:
        job: The job.
        kernels: Its kernels in launch order.
        compiler: Name and version of the compiler.
        payload: Code and launches in the backend's form.
    """

    job: Job
    kernels: tuple[KernelRecord, ...]
    compiler: str
    payload: Any = field(repr=False, default=None)


@dataclass(frozen=True, slots=True)
class Timing:
    """Time of a pipeline.

    Attributes:
        seconds: Median time of one run of the whole pipeline.
        spread: Interquartile range of the samples, as a fraction of the median.
        kernel_seconds: Time of each kernel within such a run, in launch order.
        registers: As in `KernelRecord`, in launch order; empty if unknown.
        spill_bytes: As in `KernelRecord`, in launch order; empty if unknown.
        samples: Number of samples.
        conditions: Conditions of the measurement: clocks, threads, driver, copies of the buffers.
    """

    seconds: float
    spread: float
    kernel_seconds: tuple[float, ...]
    registers: tuple[int, ...] = ()
    spill_bytes: tuple[int, ...] = ()
    samples: int = 1
    conditions: Mapping[str, str | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failure:
    """Failure of one candidate.

    Attributes:
        status: The kind of failure.
        message: Description of the failure.
    """

    status: Status
    message: str


@dataclass(frozen=True, slots=True)
class Deferred:
    """A candidate to be compiled again later: other processes are compiling the rest of its code."""


@dataclass(frozen=True, slots=True)
class Fatal:
    """Failure that prevents the measurement of every candidate.

    Attributes:
        message: Description of the failure, and the way out.
    """

    message: str


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a job.

    Attributes:
        job: The job.
        source: Source of the label: ``measured:<device>`` or ``simulated:<device>``.
        generator: Version of the code generator.
        status: Status of the measurement.
        timing: Its time, if the status is `Status.OK`.
        error: Message of the failure, or empty.
        kernels: Its kernels, if it was compiled.
        compiler: Name and version of the compiler, if it was compiled.
    """

    job: Job
    source: str
    generator: str
    status: Status
    timing: Timing | None = None
    error: str = ""
    kernels: tuple[KernelRecord, ...] = ()
    compiler: str = ""

    def __repr__(self) -> str:
        time = "" if self.timing is None else f" {format_time(self.timing.seconds)}"
        reason = f" ({self.error.splitlines()[0]})" if self.error else ""
        return f"<Result {self.status}{time}{reason} by {self.source}: {self.job!r}>"
