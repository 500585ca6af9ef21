"""Where random decisions come from: hypothesis, which shrinks a failing case, or a seeded generator, which is faster."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Choices:
    """Draws integers; simple values come first, so that shrinking leads to them.

    Args:
        integer: Returns an integer of an inclusive range.
    """

    def __init__(self, integer: Callable[[int, int], int]) -> None:
        self.integer = integer

    @classmethod
    def from_hypothesis(cls, draw: Callable[[Any], Any]) -> Choices:
        """Take decisions from a strategy's ``draw``."""
        return cls(lambda low, high: draw(st.integers(low, high)))

    @classmethod
    def from_seed(cls, seed: int) -> Choices:
        """Take decisions from Python's generator."""
        return cls(random.Random(seed).randint)

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options, the first being the simplest."""
        return options[self.integer(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        """Return True in so many of a hundred cases."""
        return self.integer(0, 99) >= 100 - percent
