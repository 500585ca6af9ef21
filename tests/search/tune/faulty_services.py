"""Services that fail, or return given times, in place of the one that times finalists.

They are in a module of their own, which the worker process imports.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

from autosched.measure.workers.program_service import ProgramService, TimedArrays
from autosched.runtime.timing.host_timer import HostProgram
from autosched.runtime.timing.interleaved import Rounds


class CrashingService(ProgramService):
    """Its process is killed during the timing."""

    def time(self, programs: Sequence[HostProgram], arrays: TimedArrays, seconds: float) -> Rounds | None:
        os.kill(os.getpid(), signal.SIGKILL)
        return None


class HangingService(ProgramService):
    """Its timing does not end."""

    def time(self, programs: Sequence[HostProgram], arrays: TimedArrays, seconds: float) -> Rounds | None:
        time.sleep(600)
        return None


class LateCompilerService(ProgramService):
    """Its compiler does not end."""

    def compile(self, sources: Sequence[str]) -> list[str | None]:
        time.sleep(600)
        return [None] * len(sources)


class RefusingService(ProgramService):
    """Its compiler refuses every program but the first."""

    def compile(self, sources: Sequence[str]) -> list[str | None]:
        return [*super().compile(sources[:1]), *[None] * (len(sources) - 1)]


@dataclass(frozen=True)
class GivenTimesService(ProgramService):
    """Its compiler does nothing, and its times are given.

    Attributes:
        fastest: Column of the fastest program.
    """

    fastest: int = 0

    def compile(self, sources: Sequence[str]) -> list[str | None]:
        return ["library"] * len(sources)

    def time(self, programs: Sequence[HostProgram], arrays: TimedArrays, seconds: float) -> Rounds | None:
        row = tuple(1e-3 if k == self.fastest else 2e-3 for k in range(len(programs)))
        return Rounds((row,) * 10)
