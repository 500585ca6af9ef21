"""What threads access, remembered by what it follows from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autosched.featurize.alike import alike
from autosched.featurize.growing import Growing
from autosched.featurize.kinds import Kinds
from autosched.featurize.points import TableRows
from autosched.featurize.rows import Bools, Ints
from autosched.featurize.tables import Entries


class EntryPool:
    """Entries of everything met so far.

    Args:
        kinds: Kinds of accesses.
        amortised: Whether what the unrolled points of a thread share is accessed once.
        vectors: Whether accesses to neighbouring elements are joined; only where they are amortised.
    """

    def __init__(self, kinds: Kinds, *, amortised: bool, vectors: bool = False) -> None:
        self.kinds = kinds
        self.amortised = amortised
        self.vectors = vectors and amortised
        self.width = Growing()
        self.start = Growing()
        self.times = Growing()
        self.full = Growing((kinds.dims,))
        self.remainders = Growing((kinds.ranks,))
        self.first = Growing()
        self.length = Growing()
        self.tables = TableRows(kinds.ranks)
        self._number: dict[int, int] = {}
        self.first.extend(np.zeros(1, np.int64))
        self.length.extend(np.zeros(1, np.int64))  # number 0 has no entries

    def of(
        self, keys: Ints, wanted: Bools, unrolled: Bools, several: Callable[[Ints], tuple[Entries, Ints]],
        single: Callable[[int], Entries],
    ) -> Ints:  # fmt: skip
        """Return the number of the entries of each group of accesses, 0 where they are not wanted.

        Args:
            keys: ``int64[A]``, equal where the entries are.
            wanted: ``bool[A]``.
            unrolled: ``bool[A]``, for which groups `unrolled_entries` serves.
            several: Returns the entries of such groups by their rows, one after the other, and how many each has.
            single: Returns the entries of any group by its row.
        """
        rows = np.flatnonzero(wanted)
        found = np.zeros(len(keys), np.int64)
        unique, first, which = alike(keys[rows])
        listed = unique.tolist()
        missing = np.array([k for k, key in enumerate(listed) if key not in self._number], np.int64)
        together = unrolled[rows[first[missing]]]
        if together.any():
            chosen = missing[together]
            start = self._add(*several(rows[first[chosen]]))
            self._number.update((listed[k], start + n) for n, k in enumerate(chosen.tolist()))
        for k in missing[~together].tolist():
            e = single(int(rows[first[k]]))
            self._number[listed[k]] = self._add(e, np.array([len(e.times)], np.int64))
        found[rows] = np.array([self._number[key] for key in listed], np.int64)[which]
        return found

    def _add(self, e: Entries, count: Ints) -> int:
        """Append the entries of some groups and return the number of the first."""
        at = self.start.extend(e.start)
        self.times.extend(e.times)
        self.width.extend(e.width)
        self.full.extend(e.full)
        self.remainders.extend(_wide(e.remainders, self.kinds.ranks))
        self.first.extend(at + np.cumsum(count) - count)
        return self.length.extend(count)


def _wide(values: Ints, width: int) -> Ints:
    found = np.zeros((len(values), width), np.int64)
    found[:, : values.shape[1]] = values
    return found
