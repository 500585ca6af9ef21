"""Where everything lives that a kernel touches: strides, origins, shared memory, for many candidates at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from autosched.analysis.bound import BoundPipeline
from autosched.featurize.facts import StructureFacts
from autosched.featurize.geometry import Geometry
from autosched.featurize.lanes import alike_rows
from autosched.featurize.memories import GLOBAL, SHARED
from autosched.featurize.nests import Bools, Ints, stacked
from autosched.featurize.structure import storage_order
from autosched.schedule.derived import array_strides, shared_pitch

WORD_BYTES = 4


@dataclass(frozen=True)
class Storage:
    """Where the source of a group of accesses lives.

    Attributes:
        memory: GLOBAL, SHARED or REGISTER.
        itemsize: Bytes of an element.
        strides: Elements between neighbours in each dimension; ``int64[dims]``, or ``int64[N, dims]`` in shared memory.
        origin: Lowest point, as ``strides``.
        placed: False for a Func that has no place yet, which is read without conflicts.
    """

    memory: int
    itemsize: int
    strides: Ints
    origin: Ints
    placed: bool = True

    @property
    def fixed_steps(self) -> tuple[int, ...] | None:
        """Bytes between neighbours as far as a warp's transactions depend on where it starts.

        None where they vary with the candidate: elements of less than a bank in shared memory. Where elements fill
        banks, no start is better than another.
        """
        if self.memory == GLOBAL:
            return tuple(int(s) * self.itemsize for s in self.strides.tolist())
        if self.memory == SHARED and self.placed and self.itemsize < WORD_BYTES:
            return None
        return (0,) * int(self.strides.shape[-1])


class StorageOf:
    """Storage of every source of one structure's candidates.

    Args:
        facts: The structure.
        geometry: Regions of the Members.
    """

    def __init__(self, facts: StructureFacts, geometry: Geometry) -> None:
        self.facts = facts
        self.bound = facts.bound
        self.geometry = geometry
        self._shared: dict[str, tuple[Ints, Ints]] = {}

    def _strides(self, func: str) -> tuple[Ints, Ints]:
        if func not in self._shared:
            self._shared[func] = shared_strides(self.bound, func, self.geometry.extents[func], self._across[func])
        return self._shared[func]

    @cached_property
    def _across(self) -> dict[str, Bools]:
        """``bool[N]`` for each BLOCK Member, whether neighbouring threads walk across its rows."""
        carriers = [self.geometry.nest(s) for s in self.facts.carriers]
        # the dimension of each that threadIdx.x walks, by position; -1 if there is none
        n = len(self.geometry.blocks)
        columns: list[Ints] = []
        for c in carriers:
            along_x = c.axes[:, :, 0]
            columns.append(np.where(along_x.any(axis=1), along_x.argmax(axis=1), -1) if c.dims else np.full(n, -1))
        lanes = stacked(columns, n)
        _, first, which = alike_rows(lanes)
        found = {name: np.zeros(len(first), bool) for name in self.facts.lifetimes}
        for k, row in enumerate(lanes[first].tolist()):
            dims = tuple(c.dims[p] if p >= 0 else None for c, p in zip(carriers, row, strict=True))
            for name in self.facts.across(dims):
                found[name][k] = True
        return {name: values[which] for name, values in found.items()}

    def bytes_of(self, func: str) -> list[Ints]:
        """Return the bytes of a BLOCK Member's buffers, one for each tuple component."""
        count = np.maximum(self._strides(func)[1], 1)
        return [count * d.bytes_ for d in self.bound.funcs[func].dtypes]

    def _array(self, source: str, component: int) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Return item size, strides in elements and origin of an array in global memory."""
        if source in self.bound.inputs:
            i = self.bound.inputs[source]
            strides, _ = array_strides(i.shape, i.dtype.bytes_, pitched=False)
            return i.dtype.bytes_, strides, (0,) * len(i.shape)
        func = self.bound.funcs[source]
        size = func.dtypes[component].bytes_
        strides, _ = array_strides(func.extents, size, pitched=not func.is_output)
        return size, strides, tuple(lo for lo, _ in func.region)

    def of(self, source: str, component: int, memory: int, placed: bool) -> Storage:
        """Return where a source lives."""
        size, strides, origin = self._array(source, component)
        if memory == SHARED and placed:
            return Storage(memory, size, self._strides(source)[0], self.geometry.origin[source])
        return Storage(memory, size, np.array(strides, np.int64), np.array(origin, np.int64), placed)


def shared_strides(bound: BoundPipeline, func: str, extents: Ints, across: Bools) -> tuple[Ints, Ints]:
    """Return the stride in elements of each dimension of a BLOCK Member's buffer, and its elements.

    Args:
        bound: The pipeline.
        func: The Member.
        extents: ``int64[N, dims of the Func]``.
        across: ``bool[N]``, whether neighbouring threads walk across its rows, which are then padded.
    """
    f = bound.funcs[func]
    order = storage_order(f)
    strides = np.zeros_like(extents)
    total = np.ones(len(extents), np.int64)
    for position, dim in reversed(list(enumerate(order))):
        k = f.dims.index(dim)
        strides[:, k] = total
        length = extents[:, k]
        if position == len(order) - 1 > 0:
            size = f.dtypes[0].bytes_
            length = np.where(across, shared_pitch(length, size, True), shared_pitch(length, size, False))
        total = total * length
    return strides, total


def first_fit(sizes: Sequence[Ints], lifetimes: Sequence[tuple[int, int]], align: int) -> Ints:
    """Return the bytes that buffers need which share memory where their lifetimes do not meet.

    The same placement as `autosched.schedule.placement.place`, for many candidates at once: buffers must come in the
    order of their first step.
    """
    n = len(sizes[0])
    starts: list[Ints] = []
    ends: list[Ints] = []
    total = np.zeros(n, np.int64)
    for k, (first, last) in enumerate(lifetimes):
        alive = [j for j in range(k) if lifetimes[j][0] <= last and first <= lifetimes[j][1]]
        offset = np.zeros(n, np.int64)
        if alive:
            low = np.stack([starts[j] for j in alive], axis=1)
            high = np.stack([ends[j] for j in alive], axis=1)
            order = np.lexsort((high, low), axis=1)
            low, high = np.take_along_axis(low, order, 1), np.take_along_axis(high, order, 1)
            fits = np.zeros(n, bool)
            for j in range(len(alive)):
                fits |= offset + sizes[k] <= low[:, j]
                offset = np.where(fits, offset, np.maximum(offset, -(-high[:, j] // align) * align))
        starts.append(offset)
        ends.append(offset + sizes[k])
        total = np.maximum(total, offset + sizes[k])
    padded: Ints = -(-total // align) * align
    return padded
