"""One candidate on its way: a job, what the compiler made of it, how long it took, or what went wrong."""

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
    """How the measurement of a candidate ended."""

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
    """The measuring process ended, or a kernel left the device unusable."""
    WRONG_RESULT = "wrong_result"
    """An output differs from the trusted one."""
    NO_REFERENCE = "no_reference"
    """The baseline failed, so there is nothing to compare with."""
    ERROR = "error"
    """Something else failed: a mistake of this library, with its traceback."""


@dataclass(frozen=True, slots=True)
class Job:
    """A candidate to be measured.

    Attributes:
        problem: The pipeline with its shapes.
        schedule: One line of JSON; see `Job.of`.
        target: What it was made for.
        seed: Of the inputs, and of the noise of a simulated device.
        origin: Where the schedule comes from, such as ``random`` or ``beam``.
    """

    problem: Problem
    schedule: str
    target: Target
    seed: int = 0
    origin: str = ""

    @classmethod
    def of(cls, problem: Problem, schedule: Schedule, target: Target, *, seed: int = 0, origin: str = "") -> Job:
        """Return the job of measuring a schedule of a problem."""
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
        """Whether reductions are computed in pieces, so that floating-point sums round in another order."""
        return bool(json.loads(self.schedule).get("splits"))

    def read_schedule(self) -> Schedule:
        """Return the schedule as an object.

        Raises:
            ScheduleError: If the text is no schedule of the problem's pipeline.
        """
        return from_json(self.schedule, self.problem.bind())


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """What is known of a kernel before it runs.

    Attributes:
        key: Names the computation; see `autosched.measure.compile.content_keys.kernel_keys`.
        text: SHA-256 of its emitted text.
        registers: 32-bit registers a thread; None where no compiler tells.
        spill_bytes: Bytes of registers that a thread stores to and loads from local memory; None likewise.
    """

    key: str
    text: str
    registers: int | None = None
    spill_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job compiled; it can be pickled.

    Attributes:
        job: The job.
        kernels: Its kernels in launch order.
        compiler: Name and version of the compiler.
        payload: What the backend needs to run it.
    """

    job: Job
    kernels: tuple[KernelRecord, ...]
    compiler: str
    payload: Any = field(repr=False, default=None)


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a pipeline took.

    Attributes:
        seconds: Median time of one run of the whole pipeline.
        spread: Distance between the quartiles of the samples, as a fraction of the median.
        kernel_seconds: Time of each kernel within such a run, in launch order.
        registers: As in `KernelRecord`, in launch order; empty where no compiler tells.
        spill_bytes: Likewise.
        samples: Number of samples the median was taken of.
        conditions: What else was the case: clocks, threads, driver, copies of the buffers.
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
    """Why a candidate has no time.

    Attributes:
        status: The kind of failure.
        message: What happened, as far as it is known.
    """

    status: Status
    message: str


@dataclass(frozen=True, slots=True)
class Deferred:
    """A candidate to be asked for again: other processes are compiling the rest of its code."""


@dataclass(frozen=True, slots=True)
class Fatal:
    """Why no candidate at all can be measured any more.

    Attributes:
        message: What happened, and the way out.
    """

    message: str


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a job.

    Attributes:
        job: The job.
        source: Where the label comes from: ``measured:<device>`` or ``simulated:<device>``.
        generator: Version of the code generator.
        status: How it ended.
        timing: Its time, if the status is `Status.OK`.
        error: What went wrong, else empty.
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
