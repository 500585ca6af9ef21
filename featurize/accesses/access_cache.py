"""Cache of the accesses of one thread, by the quantities that determine them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autosched.featurize.accesses.access_batches import AccessTableRows
from autosched.featurize.accesses.offset_tables import UniqueAccesses
from autosched.featurize.regions.nest_arrays import Bools, Ints
from autosched.featurize.tables.descriptor_tables import DescriptorTables
from autosched.featurize.tables.growable_table import GrowableArray
from autosched.featurize.tables.padding import pad_columns
from autosched.featurize.tables.unique import unique_inverse


class UniqueAccessCache:
    """Accesses of all groups so far, as rows of growable arrays.

    Args:
        kinds: Descriptors of accesses.
        amortised: Whether unrolled points of a thread access shared elements once.
        vectors: Whether accesses to neighbouring elements are coalesced; only if amortised.
    """

    def __init__(self, kinds: DescriptorTables, *, amortised: bool, vectors: bool = False) -> None:
        self.kinds = kinds
        self.amortised = amortised
        self.vectors = vectors and amortised
        self.width = GrowableArray()
        self.start = GrowableArray()
        self.times = GrowableArray()
        self.full = GrowableArray((kinds.dims,))
        self.remainders = GrowableArray((kinds.ranks,))
        self.first = GrowableArray()
        self.length = GrowableArray()
        self.tables = AccessTableRows(kinds.ranks)
        self._number: dict[int, int] = {}
        self.first.extend(np.zeros(1, np.int64))
        self.length.extend(np.zeros(1, np.int64))  # number 0 has no accesses

    def of(
        self, keys: Ints, selected: Bools, unrolled: Bools, several: Callable[[Ints], tuple[UniqueAccesses, Ints]],
        single: Callable[[int], UniqueAccesses],
    ) -> Ints:  # fmt: skip
        """Return the number of each group in the cache, 0 for groups that are not selected.

        Args:
            keys: ``int64[A]``, equal for groups with equal accesses.
            selected: ``bool[A]``.
            unrolled: ``bool[A]``, which groups `unrolled_entries` enumerates.
            several: Returns the accesses of such groups by their rows, group by group, and the number of each.
            single: Returns the accesses of any group by its row.
        """
        rows = np.flatnonzero(selected)
        numbers = np.zeros(len(keys), np.int64)
        unique, first, which = unique_inverse(keys[rows])
        listed = unique.tolist()
        missing = np.array([k for k, key in enumerate(listed) if key not in self._number], np.int64)
        batched = unrolled[rows[first[missing]]]
        if batched.any():
            chosen = missing[batched]
            start = self._add(*several(rows[first[chosen]]))
            self._number.update((listed[k], start + n) for n, k in enumerate(chosen.tolist()))
        for k in missing[~batched].tolist():
            e = single(int(rows[first[k]]))
            self._number[listed[k]] = self._add(e, np.array([len(e.times)], np.int64))
        numbers[rows] = np.array([self._number[key] for key in listed], np.int64)[which]
        return numbers

    def _add(self, e: UniqueAccesses, count: Ints) -> int:
        """Append the accesses of some groups; return the number of the first."""
        at = self.start.extend(e.start)
        self.times.extend(e.times)
        self.width.extend(e.width)
        self.full.extend(e.full)
        self.remainders.extend(pad_columns(e.remainders, (self.kinds.ranks,)))
        self.first.extend(at + np.cumsum(count) - count)
        return self.length.extend(count)
