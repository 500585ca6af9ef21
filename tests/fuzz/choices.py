"""Where random decisions come from: a tape of bytes, which hypothesis draws and shrinks, or a seeded generator."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")
TAPE_BYTES = 512


class Choices:
    """Draws integers; simple values come first, so that shrinking leads to them.

    Args:
        integer: Returns an integer of an inclusive range.
    """

    def __init__(self, integer: Callable[[int, int], int]) -> None:
        self.integer = integer

    @classmethod
    def from_tape(cls, tape: bytes) -> Choices:
        """Take decisions from bytes; after their end everything is as simple as can be.

        One draw of hypothesis for all decisions: with a draw for each, it spends most of a run on repeating parts of
        earlier examples.
        """
        rest = iter(tape)

        def integer(low: int, high: int) -> int:
            number = next(rest, 0)
            if high - low >= 100:
                number += 256 * next(rest, 0)
            return low + number % (high - low + 1)

        return cls(integer)

    @classmethod
    def from_seed(cls, seed: int) -> Choices:
        """Take decisions from Python's generator."""
        return cls(random.Random(seed).randint)

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options, the first being the simplest."""
        return options[self.integer(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        """Return True with this probability, in percent."""
        return self.integer(0, 99) >= 100 - percent


tapes = st.binary(min_size=TAPE_BYTES, max_size=2 * TAPE_BYTES)
