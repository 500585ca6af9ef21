"""Accesses to some tiles of a block, counted point by point: shared memory and shuffles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.indices import index as ix
from autosched.schedule.kernel.hybrid_parts import HybridParts, NestPart
from autosched.schedule.kernel.hybrid_read import HybridRead, Point, locate_read
from autosched.schedule.kernel.thread_fusion import is_private_tile, thread_loops
from autosched.schedule.kernel.window_reads import WindowReads
from autosched.schedule.plan import Allocation, KernelPlan, Nest
from autosched.schedule.policy import in_registers
from autosched.schedule.types import LoopKind, StageId

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

BANKS = 32
BANK_BYTES = 4


@dataclass(frozen=True)
class TileAccesses:
    """Accesses of a stage in one block: warp instructions, and wavefronts of shared memory."""

    load_requests: int = 0
    load_wavefronts: int = 0
    store_requests: int = 0
    store_wavefronts: int = 0
    shuffles: int = 0

    def plus(self, other: TileAccesses) -> TileAccesses:
        """Return the sum of two counts."""
        return TileAccesses(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def count_tile_accesses(plan: KernelPlan, names: frozenset[str]) -> dict[StageId, TileAccesses]:
    """Return the accesses to some tiles, by stage.

    Stages that update tiles at points of other threads are left out.

    Args:
        plan: The plan of one block, of at most 32 threads.
        names: The producers with these tiles.
    """
    parts = HybridParts.of(plan)
    counter = _Counter(plan, parts, names)
    counts: dict[StageId, TileAccesses] = {}
    for group in plan.steps:
        func = plan.bound.funcs[group[0].stage.func]
        if func.name in names and not all(is_private_tile(func, n.stage) for n in group):
            continue
        involved = bool(plan.hybrid_tiles) and parts.is_involved(group)
        counter.begin_nest()
        for part in parts.divide(group) if involved else [NestPart(tuple(group))]:
            for k, n in enumerate(part.nests):
                found = counter.of(part, n, last=k == len(part.nests) - 1)
                counts[n.id] = counts.get(n.id, TileAccesses()).plus(found)
    return counts


class _Counter:
    def __init__(self, plan: KernelPlan, parts: HybridParts, names: frozenset[str]) -> None:
        self.plan = plan
        self.parts = parts
        self.names = names
        self.reads = WindowReads(plan.bound, plan.inlined, dict.fromkeys(sorted(names), ""))
        self._made: set[tuple[object, ...]] = set()

    def begin_nest(self) -> None:
        """Forget the values that the code of a nest binds once."""
        self._made.clear()

    def of(self, part: NestPart, n: Nest, *, last: bool) -> TileAccesses:
        """Return the accesses of one nest of a part; ``last`` if it is the last one of its group."""
        count = TileAccesses()
        for term in self.parts.unrolled_terms(n) if part.is_unrolled else [n]:
            point, active, env = _points(term)
            for name, at in self.reads.of(term.stage):
                if name != term.stage.func:
                    count = count.plus(self._load(part, term, name, at, active, env))
        point, active, env = _points(n, terms=False)
        if n.stage.func in self.names and part.register is None and (last or not self._is_promoted(part)):
            allocation = self.plan.allocations[n.stage.func]
            if allocation.is_shared:
                sizes = [d.bytes_ for d in allocation.func.dtypes]
                requests, wavefronts = _shared(allocation, point, active, env, sizes)
                count = count.plus(TileAccesses(store_requests=requests, store_wavefronts=wavefronts))
        return count

    def _is_promoted(self, part: NestPart) -> bool:
        func = self.plan.bound.funcs[part.nests[0].stage.func]
        is_private = all(is_private_tile(func, n.stage) for n in part.nests)
        return is_private and bool(in_registers(part.nests[0].serial_points, len(func.dtypes)))

    def _load(
        self, part: NestPart, n: Nest, name: str, at: Point, active: Bools, env: Mapping[str, Ints]
    ) -> TileAccesses:
        """Return the accesses of one read of a tile."""
        allocation = self.plan.allocations[name]
        here = {d: ix.substitute(i, n.point()) for d, i in at.items()}
        sizes = [d.bytes_ for d in allocation.func.dtypes]
        read: HybridRead | None = None
        if part.is_unrolled and name in self.plan.hybrid_tiles:
            read = locate_read(self.plan.hybrid_tiles[name], here, n, self.parts.order)
            assert read is not None, "a legal kernel reads known lanes"
        shuffles = 0
        if read is not None and not read.in_shared and not read.is_own:
            registers = [read.register] if read.register is not None else [c.register for c in read.candidates]
            keys = [("shuffle", name, ix.key(r), ix.key(read.lane)) for r in registers]
            shuffles = sum(self._is_new(key) for key in keys) * len(sizes)
        if read is not None and not read.in_shared:
            if read.before is None:
                return TileAccesses(shuffles=shuffles)
            active = active & (np.asarray(ix.evaluate(read.before, env)) < 0)
        elif part.is_unrolled and active.all() and not self._is_new(("read", name, *map(ix.key, here.values()))):
            return TileAccesses()
        requests, wavefronts = _shared(allocation, here, active, env, sizes)
        return TileAccesses(load_requests=requests, load_wavefronts=wavefronts, shuffles=shuffles)

    def _is_new(self, key: tuple[object, ...]) -> bool:
        new = key not in self._made
        self._made.add(key)
        return new


def _points(n: Nest, *, terms: bool = True) -> tuple[Point, Bools, dict[str, Ints]]:
    """Return a nest's point, the iterations inside its region as ``bool[iterations, lanes]``, and loop variables.

    Args:
        n: The nest, of one block.
        terms: Whether iterations of reduction loops count.
    """
    lanes = thread_loops([n])
    inner = [p for p in n.inner if p.extent > 1 and (terms or p.kind is LoopKind.SERIAL)]
    shape = [p.extent for p in (*inner, *reversed(lanes))]
    values = np.meshgrid(*(np.arange(size) for size in shape), indexing="ij") if shape else []
    threads = int(np.prod([p.extent for p in lanes], dtype=np.int64))
    names = [p.name for p in (*inner, *reversed(lanes))]
    env = {name: v.reshape(-1, threads) for name, v in zip(names, values, strict=True)}
    point = n.point()
    iterations = int(np.prod([p.extent for p in inner], dtype=np.int64))
    active = np.ones((iterations, threads), bool)
    reduced = {d.name for d in n.stage.reductions}
    for dim, i in point.items():
        if dim in reduced and not terms:
            continue
        at = ix.evaluate(i, env)
        offset = ix.evaluate(ix.sub(i, n.low[dim]), env)
        active &= (at <= ix.evaluate(n.high[dim], env)) & (offset < n.extents[dim])
        active &= at >= ix.evaluate(n.lower_bound.get(dim, n.low[dim]), env)
    return point, active, env


def _shared(
    allocation: Allocation, point: Point, active: Bools, env: Mapping[str, Ints], sizes: Sequence[int]
) -> tuple[int, int]:
    """Return the requests and wavefronts of accesses to all components of a tile at a point."""
    elements = np.broadcast_to(np.asarray(ix.evaluate(allocation.flat(point), env)), active.shape)
    requests = int(active.any(axis=1).sum())
    return requests * len(sizes), sum(_wavefronts(elements, active, size) for size in sizes)


def _wavefronts(elements: Ints, active: Bools, size: int) -> int:
    """Return the wavefronts of requests: the most words of a bank, of each half of the lanes for 8-byte elements."""
    if size > BANK_BYTES:
        half = BANKS // 2
        halves = [(elements[:, k : k + half], active[:, k : k + half]) for k in range(0, elements.shape[1], half)]
        return sum(_most_of_a_bank(words, lanes, half) for words, lanes in halves)
    return _most_of_a_bank(elements * size // BANK_BYTES, active, BANKS)


def _most_of_a_bank(words: Ints, active: Bools, banks: int) -> int:
    """Return the sum over requests of the most different words in one bank."""
    if not words.size:
        return 0
    ordered = np.sort(np.where(active, words, -1), axis=1)
    first = np.ones(ordered.shape, bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    rows, columns = np.nonzero(first & (ordered >= 0))
    counts = np.zeros((len(words), banks), np.int64)
    np.add.at(counts, (rows, ordered[rows, columns] % banks), 1)
    return int(counts.max(axis=1).sum())
