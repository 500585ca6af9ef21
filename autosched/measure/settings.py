"""Processes and time limits of measurements."""

from __future__ import annotations

from dataclasses import dataclass, field

from autosched.errors import InputError
from autosched.measure.job import Status
from autosched.settings import settings


@dataclass(frozen=True)
class MeasureSettings:
    """Processes and time limits.

    Attributes:
        compile_processes: Number of compile processes.
        compile_timeout_s: Time limit of lowering and compiling one candidate, in seconds.
        time_limit_s: Time limit of checking and timing one candidate, in seconds.
        trust_limit_s: Time limit of making a problem's inputs, running its baseline and checking it against the
            interpreter, in seconds.
        ahead: Candidates in flight for each compile process: waiting, being compiled, or compiled.
        lifetime: Candidates after which the measuring worker is replaced, since loaded code accumulates.
        again: Statuses of stored failures that are measured again.
    """

    compile_processes: int = field(default_factory=lambda: settings().compile_jobs)
    compile_timeout_s: float = 120.0
    time_limit_s: float = 20.0
    trust_limit_s: float = 120.0
    ahead: int = 6
    lifetime: int = 500
    again: tuple[Status, ...] = (Status.NO_REFERENCE, Status.COMPILE_CRASH)

    def __post_init__(self) -> None:
        for name in ("compile_processes", "ahead", "lifetime"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}: give at least 1")
        for name in ("compile_timeout_s", "time_limit_s", "trust_limit_s"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} is {getattr(self, name)}: give a time in seconds")
        statuses = tuple(Status)
        for status in self.again:
            if status not in statuses:
                raise InputError(f"again has {status!r}: choose among {', '.join(statuses)}")
        object.__setattr__(self, "again", tuple(Status(s) for s in self.again))  # lists in configuration files

    @property
    def window(self) -> int:
        """Most candidates in flight."""
        return self.ahead * self.compile_processes
