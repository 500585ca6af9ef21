"""Choice of the fastest of several timed schedules.

The minimum of many single times is biased by noise. So schedules whose times overlap with the fastest one are timed
again, interleaved, and a challenger replaces the incumbent only if it is faster beyond noise. A deterministic device
needs no repetition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autosched.errors import MeasureError
from autosched.measure.compare.interleaved_comparison import InterleavedComparison
from autosched.measure.job import Job
from autosched.runtime.timing.interleaved import RoundsRule

NOISE = 0.05
"""Least relative noise of a time, from one run of a program to the next."""
MOST = 6
"""Most schedules that are timed again."""


@dataclass(frozen=True, slots=True)
class TimedSchedule:
    """A schedule with the time of its first measurement.

    Attributes:
        job: The schedule.
        seconds: The time.
        spread: Interquartile range of the samples, relative to the time.
    """

    job: Job
    seconds: float
    spread: float

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower and upper bound of the time, considering noise."""
        noise = max(self.spread, NOISE)
        return self.seconds * (1 - noise), self.seconds * (1 + noise)


@dataclass(frozen=True)
class FinalSelection:
    """The chosen schedule.

    Attributes:
        chosen: The schedule.
        seconds: The median time over the rounds or, without any, the time of the first measurement.
        again: Median time of each schedule that was timed again, by its JSON text.
        note: Note for users, or empty.
    """

    chosen: TimedSchedule
    seconds: float
    again: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


def contenders(timed: Sequence[TimedSchedule]) -> list[TimedSchedule]:
    """Return the schedules whose first times overlap with the fastest one, in the order of these times."""
    ranked = sorted(timed, key=_order)
    if not ranked:
        return []
    limit = ranked[0].bounds[1]
    return [t for t in ranked if t.bounds[0] <= limit][:MOST]


def select_fastest(
    incumbent: TimedSchedule,
    groups: Sequence[Sequence[TimedSchedule]],
    comparison: InterleavedComparison,
    references: Sequence[TimedSchedule] = (),
    seconds: float | None = None,
) -> FinalSelection:
    """Choose between a schedule and its challengers.

    Args:
        incumbent: The choice, unless a challenger is faster beyond noise.
        groups: Groups of challengers. The winner of each group is the incumbent of the next, so that a later group
            cannot lead to a worse choice.
        comparison: Times schedules interleaved.
        references: Schedules that are always timed again, for reports.
        seconds: Time budget; by default that of the comparison.
    """
    candidates = _distinct([incumbent, *(t for g in groups for t in g), *references])
    if not comparison.is_needed:
        best = min(candidates, key=_order)
        return FinalSelection(best, best.seconds)
    seen = [incumbent]
    finalists = [incumbent]
    for group in groups:
        seen += group
        finalists += contenders(seen)
    finalists = _distinct(finalists)
    if len(finalists) == 1:
        return FinalSelection(incumbent, incumbent.seconds)
    finalists = _distinct([*finalists, *references])
    column = {t.job.schedule: k for k, t in enumerate(finalists)}
    try:
        rounds = comparison.compare([t.job for t in finalists], _rule(comparison.rule, seconds))
    except MeasureError as error:
        best = min(candidates, key=_order)
        return FinalSelection(best, best.seconds, note=f"chosen by single times: {str(error).splitlines()[0]}")
    winner = 0
    for group in groups:
        winner = rounds.winner(winner, sorted(column[t.job.schedule] for t in group if t.job.schedule in column))
    again = {text: rounds.median_and_spread(k)[0] for text, k in column.items()}
    chosen = finalists[winner]
    return FinalSelection(chosen, again[chosen.job.schedule], again)


def _rule(rule: RoundsRule, seconds: float | None) -> RoundsRule:
    return rule if seconds is None else replace(rule, most_seconds=min(rule.most_seconds, seconds))


def _order(timed: TimedSchedule) -> tuple[float, str]:
    return timed.seconds, timed.job.schedule


def _distinct(timed: Sequence[TimedSchedule]) -> list[TimedSchedule]:
    return list({t.job.schedule: t for t in timed}.values())
