"""Runs of blocks along one loop in which a condition has one outcome, found by recursive subdivision.

The bounds of an index over a range of blocks decide most ranges at once. The work is therefore proportional to the
number of changes of the outcome, not to the number of blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.analysis.indices import index as ix
from autosched.lower.builder import CheckedIndex

FIRST_RANGES = 1 << 12
"""Ranges into which a loop is divided first."""
PARTS = 64
"""Ranges into which an undecided range is divided."""
MOST_RANGES = 1 << 18
"""Ranges of one subdivision, at most; beyond, ranges stay undecided. Results for fewer blocks are exact."""

Mask = np.ndarray[Any, np.dtype[np.bool_]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Runs:
    """Consecutive ranges of a loop's blocks, and the end of the run with one outcome that contains each.

    Attributes:
        starts: ``int64[N]``, first block of each range, ascending from 0.
        ends: ``int64[N]``, first block after the run that contains the range; 0 if the condition is undecided.
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
        """Return the start and the exclusive end of the first longest run; both are equal if there is none."""
        lengths = np.where(self.ends > 0, self.ends - self.starts, 0)
        at = int(np.argmax(lengths))
        return int(self.starts[at]), int(self.starts[at] + lengths[at])

    def shortened(self, other: Runs) -> Runs:
        """Return the runs that end at the earlier end of two."""
        starts, (a, b) = _on_common_ranges((self, other))
        return Runs(starts, np.where((a > 0) & (b > 0), np.minimum(a, b), 0), self.extent)

    def extended(self, other: Runs) -> Runs:
        """Return the runs that end at the later end of two."""
        starts, (a, b) = _on_common_ranges((self, other))
        return Runs(starts, np.maximum(a, b), self.extent)


@dataclass(frozen=True, slots=True)
class ConditionOutcome:
    """One possible outcome of a condition in ranges of blocks.

    Attributes:
        yes: ``bool[...]``, whether all blocks of the range have it.
        no: ``bool[...]``, whether no block of the range has it.
        value: ``int64[...]``, the outcome; ranges with different values are different runs.
    """

    yes: Mask
    no: Mask
    value: Numbers


def possible_outcomes(
    c: CheckedIndex, blocks: Mapping[str, tuple[Any, Any]], shape: tuple[int, ...]
) -> list[ConditionOutcome]:
    """Return the possible outcomes of a condition in inclusive ranges of blocks.

    In a range of one block, an outcome without `ConditionOutcome.yes` is undecided whatever `ConditionOutcome.no` is.
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
        outcomes = possible_outcomes(c, {name: (starts, stops - 1)}, starts.shape)
        undecided = np.any([~(o.yes | o.no) for o in outcomes], axis=0) & (stops - starts > 1)
        if np.minimum(stops - starts, PARTS)[undecided].sum() > MOST_RANGES:
            undecided[:] = False
        kept = ~undecided
        decided = [ConditionOutcome(o.yes[kept], o.no[kept], o.value[kept]) for o in outcomes]
        settled.append((starts[kept], decided))
        if not undecided.any():
            break
        starts, stops = _parts(starts[undecided], stops[undecided], PARTS)
    starts = np.concatenate([s for s, _ in settled])
    order = np.argsort(starts)
    bounds = np.append(starts[order], extent)
    runs = None
    for parts in zip(*(outcomes for _, outcomes in settled), strict=True):
        yes = np.concatenate([o.yes for o in parts])[order]
        value = np.concatenate([o.value for o in parts])[order]
        of_outcome = Runs(bounds[:-1], np.where(yes, bounds[_run_ends(yes, value)], 0), extent)
        runs = of_outcome if runs is None else runs.extended(of_outcome)
    assert runs is not None
    return runs


def _parts(starts: Numbers, stops: Numbers, parts: int) -> tuple[Numbers, Numbers]:
    """Return ranges divided into at most ``parts`` nonempty ranges each."""
    lengths = (stops - starts)[:, None]
    share, left = lengths // parts, lengths % parts
    k = np.arange(parts + 1)
    cuts = starts[:, None] + share * k + np.minimum(k, left)
    first, after = cuts[:, :-1].reshape(-1), cuts[:, 1:].reshape(-1)
    nonempty = after > first
    return first[nonempty], after[nonempty]


def _run_ends(decided: Mask, value: Numbers) -> Numbers:
    """Return for each decided range the number of the first range after its run of equal values."""
    numbers = np.arange(len(decided))
    breaks = ~decided | np.concatenate(([True], value[1:] != value[:-1]))
    following = np.append(np.where(breaks, numbers, len(numbers))[1:], len(numbers))
    ends: Numbers = np.minimum.accumulate(following[::-1])[::-1]
    return ends


def _on_common_ranges(both: tuple[Runs, Runs]) -> tuple[Numbers, tuple[Numbers, Numbers]]:
    """Return the starts of the common refinement of two lists of ranges, and the ends of each list on it."""
    a, b = both
    starts = a.starts if len(a.starts) == len(b.starts) and (a.starts == b.starts).all() else _union(a, b)
    ends = (r.ends[np.searchsorted(r.starts, starts, "right") - 1] for r in both)
    first, second = ends
    return starts, (first, second)


def _union(a: Runs, b: Runs) -> Numbers:
    starts: Numbers = np.union1d(a.starts, b.starts)
    return starts
