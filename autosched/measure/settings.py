"""How measuring uses the machine."""

from __future__ import annotations

from dataclasses import dataclass, field

from autosched.errors import InputError
from autosched.measure.job import Status
from autosched.settings import settings


@dataclass(frozen=True)
class MeasureSettings:
    """Processes and time limits.

    Attributes:
        compile_processes: Processes that compile at a time.
        compile_timeout_s: Time for lowering and compiling one candidate, in seconds.
        time_limit_s: Time for checking and timing one candidate, in seconds.
        trust_limit_s: Time for making a problem's inputs, running its baseline and holding it against the interpreter,
            in seconds.
        ahead: Candidates that are compiled, being compiled or waiting to be, for each compile process.
        lifetime: Candidates after which the measuring worker is replaced, since loaded code adds up.
        again: Kinds of failures in the database that are measured again.
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
        known = tuple(Status)
        for status in self.again:
            if status not in known:
                raise InputError(f"again has {status!r}: choose among {', '.join(known)}")
        object.__setattr__(self, "again", tuple(Status(s) for s in self.again))  # configuration files have lists

    @property
    def window(self) -> int:
        """Candidates that are on their way at most."""
        return self.ahead * self.compile_processes
