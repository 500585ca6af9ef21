"""Rows of a sliding window that each thread keeps in registers, of its own points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from autosched.analysis.indices import index as ix

Point = Mapping[str, ix.Index]


@dataclass(frozen=True)
class RegisterWindow:
    """The rows of a private producer that each thread keeps, of its own points.

    Attributes:
        dim: The dimension along which the window slides.
        entering: The first row that enters in a step.
        rows: Rows that enter in a step.
        count: Rows in registers; the last ``rows`` of them are those that enter.
        delay: Distance from the last row that enters the registers to the last that enters shared memory.
        shared_rows: Rows in shared memory, 0 if none.
        base: Lowest point of thread 0 in the other dimensions.
        points: Points of a thread in the other dimensions.
        threads: Names of the thread loops over each of the other dimensions, of all stages with these threads.
    """

    dim: str
    entering: ix.Index
    rows: int
    count: int
    delay: int
    shared_rows: int
    base: Point
    points: Mapping[str, int]
    threads: Mapping[str, frozenset[str]]

    @property
    def elements(self) -> int:
        """Registers of a thread, in elements."""
        return self.count * prod(self.points.values())

    @property
    def first_row(self) -> ix.Index:
        """The oldest row in registers in a step."""
        first: ix.Index = ix.sub(self.entering, self.count - self.rows)
        return first

    def position(self, row: ix.Index) -> ix.Index:
        """Return the position of a row among those in registers."""
        position: ix.Index = ix.sub(row, self.first_row)
        return position

    @property
    def shared_span(self) -> tuple[int, int]:
        """Inclusive range of positions whose rows are in shared memory, empty if there are none."""
        last = self.count - 1 - self.delay
        return last - self.shared_rows + 1, last

    def element(self, at: Point) -> ix.Index | None:
        """Return the number of a point among those of its thread; None if it may belong to another thread."""
        number: ix.Index = 0
        for dim, points in self.points.items():
            offset = ix.sub(at[dim], self.base[dim])
            within = ix.mod(offset, points)
            (name, *others) = [*ix.loop_vars(ix.floordiv(offset, points)), ""]
            of_thread = ix.sub(offset, within)
            if any(others) or (name and name not in self.threads[dim]):
                return None
            thread: ix.Index = ix.Affine(((ix.loop_vars(of_thread)[name], points),), 0) if name else 0
            if not is_linear(within) or ix.sub(of_thread, thread) != 0:
                return None
            number = ix.add(ix.scale(number, points), within)
        return number

    def flat(self, position: ix.Index, element: ix.Index) -> ix.Index:
        """Return the index of an element in the registers of a thread."""
        flat: ix.Index = ix.add(ix.scale(position, prod(self.points.values())), element)
        return flat


def is_linear(i: ix.Index) -> bool:
    """Whether an index has no clamp, remainder or data."""
    return not any(isinstance(t, ix.Atom) for t in ix.atoms(i))
