"""Which of several timed schedules to take: the shortest of many single times is short by luck.

Those that may be the fastest are timed again, in turns, and a challenger replaces what is held only where it is really
ahead. On a device that gives the same time each time there is nothing to repeat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autosched.errors import MeasureError
from autosched.measure.compare.interleaved_comparison import InterleavedComparison
from autosched.measure.job import Job
from autosched.runtime.timing.interleaved import RoundsRule

NOISE = 0.05
"""How far a time may be off at least, from one run of a program to the next, as a fraction of it."""
MOST = 6
"""Schedules that may be the fastest are timed again: so many at most, the fastest."""


@dataclass(frozen=True, slots=True)
class TimedSchedule:
    """A schedule with the time it was first measured with.

    Attributes:
        job: The schedule.
        seconds: Its time.
        spread: Distance between the quartiles of the samples, as a fraction of it.
    """

    job: Job
    seconds: float
    spread: float

    @property
    def bounds(self) -> tuple[float, float]:
        """Between what its time may really lie."""
        noise = max(self.spread, NOISE)
        return self.seconds * (1 - noise), self.seconds * (1 + noise)


@dataclass(frozen=True)
class FinalSelection:
    """What was chosen.

    Attributes:
        chosen: The schedule.
        seconds: Its time: the median over the rounds, or what it was first measured with.
        again: Median time of each schedule that was timed again, by its JSON text; empty if none was.
        note: What a user should know, or empty.
    """

    chosen: TimedSchedule
    seconds: float
    again: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


def contenders(timed: Sequence[TimedSchedule]) -> list[TimedSchedule]:
    """Return the schedules that may be the fastest for all that their first times say, the fastest first."""
    ranked = sorted(timed, key=_order)
    if not ranked:
        return []
    limit = ranked[0].bounds[1]
    return [t for t in ranked if t.bounds[0] <= limit][:MOST]


def select_fastest(
    holder: TimedSchedule,
    groups: Sequence[Sequence[TimedSchedule]],
    comparer: InterleavedComparison,
    beside: Sequence[TimedSchedule] = (),
    seconds: float | None = None,
) -> FinalSelection:
    """Choose between a schedule and its challengers.

    Args:
        holder: What is taken unless another one is really ahead of it.
        groups: Challengers: the winner among the first group and the holder is the holder for the next, so that no
            later group can lead to a worse choice.
        comparer: Times them in turns.
        beside: What is timed again in any case, to be compared with.
        seconds: Time that is left, if not all that the comparer takes.
    """
    everything = _distinct([holder, *(t for g in groups for t in g), *beside])
    if not comparer.is_needed:
        best = min(everything, key=_order)
        return FinalSelection(best, best.seconds)
    seen = [holder]
    finalists = [holder]
    for group in groups:
        seen += group
        finalists += contenders(seen)
    finalists = _distinct(finalists)
    if len(finalists) == 1:
        return FinalSelection(holder, holder.seconds)
    finalists = _distinct([*finalists, *beside])
    column = {t.job.schedule: k for k, t in enumerate(finalists)}
    try:
        rounds = comparer.compare([t.job for t in finalists], _rule(comparer.rule, seconds))
    except MeasureError as error:
        best = min(everything, key=_order)
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
