"""Runs of blocks along one loop in which a condition has one answer, found by bisection.

Bounds of an index over a range of blocks decide most ranges at once, so that work follows the number of places where
the answer changes, and not the number of blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.analysis.indices import index as ix
from autosched.lower.builder import CheckedIndex

FIRST_RANGES = 1 << 12
"""Ranges that a loop is cut into at first."""
PARTS = 64
"""Ranges that an undecided range is cut into."""
MOST_RANGES = 1 << 18
"""Ranges at once; where more would be needed, what is left counts as undecided. Loops of fewer blocks are exact."""

Mask = np.ndarray[Any, np.dtype[np.bool_]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Runs:
    """Consecutive ranges of a loop's blocks, and the end of the run with one answer around each.

    Attributes:
        starts: ``int64[N]``, first block of each range, ascending from 0.
        ends: ``int64[N]``, the block after the run that the range belongs to; 0 where the condition is undecided.
        extent: Number of blocks.
    """

    starts: Numbers
    ends: Numbers
    extent: int

    @classmethod
    def whole(cls, extent: int) -> Runs:
        """Return one run of all blocks."""
        return cls(np.zeros(1, np.int64), np.full(1, extent, np.int64), extent)

    def longest(self) -> tuple[int, int]:
        """Return the start and the end, exclusive, of the first longest run; its length is 0 where there is none."""
        lengths = np.where(self.ends > 0, self.ends - self.starts, 0)
        at = int(np.argmax(lengths))
        return int(self.starts[at]), int(self.starts[at] + lengths[at])

    def shortened(self, other: Runs) -> Runs:
        """Return the runs that end where the first of two ends."""
        starts, (a, b) = _together((self, other))
        return Runs(starts, np.where((a > 0) & (b > 0), np.minimum(a, b), 0), self.extent)

    def extended(self, other: Runs) -> Runs:
        """Return the runs that end where the last of two ends."""
        starts, (a, b) = _together((self, other))
        return Runs(starts, np.maximum(a, b), self.extent)


@dataclass(frozen=True, slots=True)
class ConditionOutcome:
    """One way in which a condition may be decided, in ranges of blocks: where it is, where not at all, and how."""

    yes: Mask
    no: Mask
    value: Numbers


def answers(c: CheckedIndex, blocks: Mapping[str, tuple[Any, Any]], shape: tuple[int, ...]) -> list[ConditionOutcome]:
    """Return the ways in which a condition may be decided in inclusive ranges of blocks.

    Where a range is one block, a way that is not decided there is undecided, whatever `ConditionOutcome.no` says.
    """
    lo, hi = (np.broadcast_to(b, shape) for b in ix.bounds(c.index, blocks))
    one = np.ones(shape, np.int64)
    match c.kind:
        case "sign":
            return [ConditionOutcome(hi <= 0, lo > 0, one), ConditionOutcome(lo >= 0, hi < 0, one)]
        case "nonnegative":
            return [ConditionOutcome(lo >= 0, hi < 0, one)]
        case "split":
            return [ConditionOutcome(hi < 0, lo >= 0, one), ConditionOutcome(lo >= 0, hi < 0, one)]
        case "nonzero":
            zero = ConditionOutcome((lo == 0) & (hi == 0), (lo > 0) | (hi < 0), one)
            return [ConditionOutcome(hi < 0, lo >= 0, one), ConditionOutcome(lo > 0, hi <= 0, one), zero]
        case _:
            quotient = lo // c.divisor
            return [ConditionOutcome(quotient == hi // c.divisor, np.zeros(shape, np.bool_), quotient)]


def runs_of(c: CheckedIndex, name: str, extent: int) -> Runs:
    """Return the runs of a condition on one block loop.

    Args:
        c: The condition.
        name: The loop.
        extent: Its number of blocks.
    """
    starts, stops = _parts(np.zeros(1, np.int64), np.full(1, extent, np.int64), FIRST_RANGES)
    settled: list[tuple[Numbers, list[ConditionOutcome]]] = []
    while True:
        found = answers(c, {name: (starts, stops - 1)}, starts.shape)
        undecided = np.any([~(a.yes | a.no) for a in found], axis=0) & (stops - starts > 1)
        if np.minimum(stops - starts, PARTS)[undecided].sum() > MOST_RANGES:
            undecided[:] = False
        kept = ~undecided
        settled.append((starts[kept], [ConditionOutcome(a.yes[kept], a.no[kept], a.value[kept]) for a in found]))
        if not undecided.any():
            break
        starts, stops = _parts(starts[undecided], stops[undecided], PARTS)
    starts = np.concatenate([s for s, _ in settled])
    order = np.argsort(starts)
    bounds = np.append(starts[order], extent)
    runs = None
    for ways in zip(*(found for _, found in settled), strict=True):
        yes = np.concatenate([a.yes for a in ways])[order]
        value = np.concatenate([a.value for a in ways])[order]
        own = Runs(bounds[:-1], np.where(yes, bounds[_run_ends(yes, value)], 0), extent)
        runs = own if runs is None else runs.extended(own)
    assert runs is not None
    return runs


def _parts(starts: Numbers, stops: Numbers, parts: int) -> tuple[Numbers, Numbers]:
    """Return ranges cut into at most so many parts each, none of them empty."""
    lengths = (stops - starts)[:, None]
    share, left = lengths // parts, lengths % parts
    k = np.arange(parts + 1)
    cuts = starts[:, None] + share * k + np.minimum(k, left)
    first, after = cuts[:, :-1].reshape(-1), cuts[:, 1:].reshape(-1)
    some = after > first
    return first[some], after[some]


def _run_ends(decided: Mask, value: Numbers) -> Numbers:
    """Return for each range the number of the first range after the run with its value, if it is decided."""
    numbers = np.arange(len(decided))
    breaks = ~decided | np.concatenate(([True], value[1:] != value[:-1]))
    following = np.append(np.where(breaks, numbers, len(numbers))[1:], len(numbers))
    ends: Numbers = np.minimum.accumulate(following[::-1])[::-1]
    return ends


def _together(both: tuple[Runs, Runs]) -> tuple[Numbers, tuple[Numbers, Numbers]]:
    """Return the ranges of two lists of runs over the same blocks cut alike, and the ends of each."""
    a, b = both
    starts = a.starts if len(a.starts) == len(b.starts) and (a.starts == b.starts).all() else _union(a, b)
    ends = (r.ends[np.searchsorted(r.starts, starts, "right") - 1] for r in both)
    first, second = ends
    return starts, (first, second)


def _union(a: Runs, b: Runs) -> Numbers:
    found: Numbers = np.union1d(a.starts, b.starts)
    return found
