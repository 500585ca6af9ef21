"""Distinct memory of blocks: the working set of caches, and the overlap between blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.lower.ir import Buffer
from autosched.measure.simulated.sampling import MIDDLE, Rows
from autosched.measure.simulated.transactions import SECTOR_BYTES
from autosched.measure.simulated.work import BufferWork

MOST_ELEMENTS = 1 << 18
"""Most elements enumerated for one access; larger accesses are counted in sectors."""

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Sampled:
    """A loop with a sample of consecutive iterations.

    Attributes:
        axis: Axis of arrays over lanes, counted from the end.
        extent: Number of iterations.
        executed: Number of executed iterations.
    """

    axis: int
    extent: int
    executed: int


@dataclass
class Access:
    """Accesses to a buffer whose indices differ by constants.

    Attributes:
        base: Their common index, over lanes.
        active: The active lanes.
        loops: Loops that were not executed in full.
        offsets: The constants, for all elements of vectors.
    """

    base: Numbers
    active: Mask
    loops: tuple[Sampled, ...]
    offsets: set[int] = field(default_factory=set)

    def sectors(self, size: int, rows: Mask, first_of: int | None = None) -> Numbers:
        """Return the distinct sectors of some rows.

        Args:
            size: Bytes of an element.
            rows: The rows.
            first_of: Axis of a loop that is restricted to its first iteration.
        """
        base, active = np.broadcast_arrays(self.base, self.active)
        if first_of is not None and base.ndim >= -first_of:
            base, active = (np.take(a, [0], axis=first_of) for a in (base, active))
        elements = np.unique(base[..., rows, :][active[..., rows, :]])
        offsets = np.array(sorted(self.offsets), np.int64)
        a_sector = SECTOR_BYTES // size
        if len(elements) * len(offsets) > MOST_ELEMENTS:
            whole, part = np.unique(elements // a_sector), np.unique(offsets // a_sector)
            return np.unique(whole[:, None] + np.unique(np.concatenate((part, part + 1))))
        return np.unique((elements[:, None] + offsets) // a_sector)

    def growth(self, size: int, rows: Mask) -> float:
        """Return the ratio of the sectors of all iterations to those of the executed ones."""
        growth = 1.0
        for loop in self.loops:
            all_of, one = len(self.sectors(size, rows)), len(self.sectors(size, rows, loop.axis))
            if one and loop.executed > 1:
                fresh = (all_of - one) / ((loop.executed - 1) * one)
                growth *= (1 + (loop.extent - 1) * fresh) / (1 + (loop.executed - 1) * fresh)
        return growth

    def ends(self) -> tuple[int, int]:
        """Return the first and last element touched, by any row."""
        base, active = np.broadcast_arrays(self.base, self.active)
        touched = base[active]
        if not len(touched):
            return 0, -1
        return int(touched.min()) + min(self.offsets), int(touched.max()) + max(self.offsets)


@dataclass
class Footprints:
    """Footprints of a kernel body in global memory."""

    loads: dict[str, dict[Any, Access]] = field(default_factory=dict)
    stores: dict[str, dict[Any, Access]] = field(default_factory=dict)

    def note(self, buffer: Buffer, key: Any, access: Access, offsets: Sequence[int], *, store: bool) -> None:
        """Add an access; accesses with equal keys differ only by their constants."""
        of_buffer = (self.stores if store else self.loads).setdefault(buffer.name, {})
        of_buffer.setdefault(key, access).offsets.update(offsets)

    def ends(self, name: str) -> list[tuple[int, int]]:
        """Return the first and last element of each access to a buffer."""
        ends = [a.ends() for side in (self.loads, self.stores) for a in side.get(name, {}).values()]
        return [(lo, hi) for lo, hi in ends if hi >= lo]

    def buffer_work(
        self, buffer: Buffer, rows: Rows, loops: int, load_sectors: float, others: Sequence[Footprints] = ()
    ) -> BufferWork:
        """Return the work of blocks on a buffer.

        Args:
            buffer: The buffer.
            rows: The executed rows, with the middle block.
            loops: Loops over blocks; rows may include the middle block's neighbour in each of them.
            load_sectors: Sectors of a block's loads.
            others: Footprints of the bodies of other blocks.
        """
        size = buffer.dtype.bytes_
        middle = rows.block == MIDDLE
        loads = list(self.loads.get(buffer.name, {}).values())
        stores = list(self.stores.get(buffer.name, {}).values())
        read, window = _touched(loads, size, middle)
        written, _ = _touched(stores, size, middle)
        ends = [end for f in (self, *others) for end in f.ends(buffer.name)]
        span = (max(hi for _, hi in ends) - min(lo for lo, _ in ends) + 1) * size if ends else 0
        fresh = tuple(_fresh(loads, size, middle, rows.block == number) for number in range(1, loops + 1))
        return BufferWork(
            name=buffer.name, bytes=buffer.count * size, load_sectors=load_sectors, load_bytes=read,
            window_bytes=window, store_bytes=written, span_bytes=min(float(span), float(buffer.count * size)),
            fresh=fresh,
        )  # fmt: skip


def _touched(accesses: Sequence[Access], size: int, rows: Mask) -> tuple[float, float]:
    """Return the bytes of a block's sectors, for all and for the executed iterations."""
    if not accesses:
        return 0.0, 0.0
    each = [a.sectors(size, rows) for a in accesses]
    union = len(np.unique(np.concatenate(each))) * SECTOR_BYTES
    counted = sum(len(s) for s in each)
    grown = sum(len(s) * a.growth(size, rows) for s, a in zip(each, accesses, strict=True))
    return union * (grown / counted if counted else 1.0), float(union)


def _fresh(accesses: Sequence[Access], size: int, block: Mask, before: Mask) -> float:
    """Return the share of a block's sectors that another block does not touch."""
    if not accesses or not before.any():
        return 1.0
    own = np.unique(np.concatenate([a.sectors(size, block) for a in accesses]))
    others = np.unique(np.concatenate([a.sectors(size, before) for a in accesses]))
    return 1.0 if not len(own) else float(np.count_nonzero(~np.isin(own, others, assume_unique=True)) / len(own))
