"""Known times, for choosing without a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from autosched.errors import MeasureError
from autosched.measure.job import Job
from autosched.measure.problem import Problem
from autosched.runtime.timing.interleaved import Rounds, RoundsRule
from autosched.search.tune.final_selection import TimedSchedule
from autosched.target import get_target

PROBLEM, TARGET = Problem.app("blur", small=True), get_target("h200")


def timed(name: str, seconds: float, spread: float = 0.0) -> TimedSchedule:
    return TimedSchedule(Job(PROBLEM, name, TARGET), seconds, spread)


@dataclass
class Stopwatch:
    """A fake comparison with the true times by name."""

    true: dict[str, float]
    is_needed: bool = True
    fails: bool = False
    rule: RoundsRule = field(default_factory=RoundsRule)
    asked: list[list[str]] = field(default_factory=list)

    def compare(self, jobs: Sequence[Job], rule: RoundsRule) -> Rounds:
        self.asked.append([job.schedule for job in jobs])
        if self.fails:
            raise MeasureError("the process ended (killed by SIGKILL):\nits last words")
        return Rounds((tuple(self.true[job.schedule] for job in jobs),) * rule.least)
