"""Random decisions, by the operations of NumPy's generator that give the same numbers on every machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")
SIXTEENTHS = 32


class PortableRandom:
    """Draws integers and fractions from a generator.

    Args:
        rng: Source of randomness. Distributions with transcendental functions are left out: they differ in the last
            bit from one mathematical library to the next.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def integer(self, low: int, high: int) -> int:
        """Return an integer of an inclusive range."""
        return int(self._rng.integers(low, high + 1))

    def fraction(self) -> float:
        """Return a number in [0, 1)."""
        return float(self._rng.random())

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return self.fraction() < probability

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[self.integer(0, len(options) - 1)]

    def weighted(self, weights: Mapping[T, float]) -> T:
        """Return a key with a probability in proportion to its weight."""
        point = self.fraction() * sum(weights.values())
        for key, weight in weights.items():
            point -= weight
            if point < 0:
                return key
        return next(key for key, weight in reversed(list(weights.items())) if weight > 0)

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in random order."""
        rest, result = list(items), []
        while rest:
            result.append(rest.pop(self.integer(0, len(rest) - 1)))
        return result

    def coefficient(self) -> float:
        """Return a number of sixteenths between -2 and 2, but not 0: exact in every floating-point type."""
        return self.pick((-1, 1)) * self.integer(1, SIXTEENTHS) / 16
