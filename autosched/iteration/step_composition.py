"""The dynamic program that composes fused steps for any number of time steps (Artemis, section VI-A).

best(T) = min over x of best(T - x) + seconds(x)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property


class StepComposition:
    """Cheapest sequences of versions that take a number of steps each.

    Some cheapest sequence has fewer than ``b`` versions other than the one with the least time per step, which takes
    ``b`` steps: of ``b`` others, some take a multiple of ``b`` steps together. So a table of a few entries serves all
    numbers of steps.

    Args:
        seconds: Time of each version by its number of steps; one step is among them. A version of unknown time (NaN)
            is used only if it takes one step.
    """

    def __init__(self, seconds: Mapping[int, float]) -> None:
        assert 1 in seconds, "a composition needs the version of one step"
        timed = {x: s for x, s in seconds.items() if math.isfinite(s)}
        self.seconds: dict[int, float] = dict(sorted(timed.items())) if 1 in timed else {1: 1.0}
        self.densest = min(self.seconds, key=lambda x: (self.seconds[x] / x, -x))

    @property
    def limit(self) -> int:
        """The most steps of the table; beyond it the version with the least time per step comes first."""
        return (self.densest - 1) * max(self.seconds)

    @cached_property
    def first(self) -> tuple[int, ...]:
        """The version that comes first, by number of steps up to `limit`; 0 for no steps."""
        best, first = [0.0], [0]
        for steps in range(1, self.limit + 1):
            # of equal times the version with the most steps
            total, x = min((best[steps - x] + s, -x) for x, s in self.seconds.items() if x <= steps)
            best.append(total)
            first.append(-x)
        return tuple(first)

    def versions(self, times: int) -> tuple[int, ...]:
        """Return the steps of each version in a cheapest sequence of ``times`` steps, in order."""
        sequence = []
        left = times
        if left > self.limit:
            count = -((self.limit - left) // self.densest)
            sequence += [self.densest] * count
            left -= count * self.densest
        while left:
            sequence.append(self.first[left])
            left -= sequence[-1]
        return tuple(sequence)

    def predicted_seconds(self, times: int) -> float:
        """Return the time of a cheapest sequence."""
        return math.fsum(self.seconds[x] for x in self.versions(times))

    @cached_property
    def used(self) -> tuple[int, ...]:
        """The versions that some number of steps uses, in ascending order."""
        return tuple(sorted({*self.first[1:], self.densest}))


def sequence_text(sequence: tuple[int, ...]) -> str:
    """Return a sequence of versions as text: ``3 runs of 4, 1 run of 2``."""
    runs: list[list[int]] = []
    for steps in sequence:
        if runs and runs[-1][0] == steps:
            runs[-1][1] += 1
        else:
            runs.append([steps, 1])
    return ", ".join(f"{n} run{'s' * (n > 1)} of {x}" for x, n in runs) or "a copy of the fields"
