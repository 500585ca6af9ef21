"""Row kernels: the statistics of a row, and what is computed from them, in the kernel of their last consumer.

A chain such as mean, variance, normalised row, maximum, exponentials, sum, softmax has as many passes over a row. Beam
search decides one Func after the other, and each statistic pays off in its consumer's block only once all of them are
there. Here a whole chain moves at once. A warp has one row: its lanes reduce the row's terms, and neighbouring lanes
have neighbouring points of it. Then single Funcs are inlined or stored, in shared memory or in the registers of the
lanes, arrays that several nests read are copied there as well, and the number of rows of a block is chosen again.

    mean | var | norm | max | sum | out   ->   out with mean, var, norm, max, sum at BLOCK
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import cache_name, insert_cache_reads
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch, NestOrder
from autosched.schedule.types import Level, StageId
from autosched.search.beam.state import Params, PartialKernel, State
from autosched.search.cost.protocol import rounded_cost
from autosched.search.evaluate.batched import Kernel, run_search
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.retile import Retiler
from autosched.search.rewrites.warp_reductions import has_lanes
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.strategies.compute_root import inlined_funcs

ROWS = (4, 8, 2, 16, 1, 32)
"""Rows of a block to try, one for each warp; the first of equally fast numbers is chosen."""
MOST_KERNELS = 4
"""Most kernels of a state to extend: those of the last consumers."""
MOST_SWEEPS = 6
"""Most sweeps of coordinate descent over the storage of a row kernel."""


@dataclass(frozen=True)
class RowGroup:
    """A consumer of row statistics, with the producers that its blocks can compute.

    Attributes:
        func: The consumer.
        rows: Its dimensions over rows, outermost first; those of the statistics.
        producers: Names of the producers, in the order of the pipeline.
    """

    func: str
    rows: tuple[str, ...]
    producers: tuple[str, ...]


class RowStorage(NamedTuple):
    """Storage of what a row kernel computes and reads.

    Attributes:
        inlined: Pure producers that are inlined; all others are at BLOCK.
        copied: Arrays with a cache read.
        private: Producers and cache reads in registers; all others at BLOCK are in shared memory.
    """

    inlined: frozenset[str] = frozenset()
    copied: frozenset[str] = frozenset()
    private: frozenset[str] = frozenset()


@dataclass
class RowKernelSearch:
    """Moves chains of row statistics into the kernels of their consumers.

    Args:
        evaluator: Costs kernels.
        enumerator: Enumerates tile sizes.
        late: Returns whether the time budget has ended.
    """

    evaluator: KernelEvaluator
    enumerator: OptionEnumerator
    late: Callable[[], bool] = lambda: False

    @property
    def bound(self) -> BoundPipeline:
        """The pipeline."""
        return self.evaluator.bound

    def with_row_kernels(self, state: State) -> State:
        """Return a complete state with all worthwhile row kernels; the state itself if there is none."""
        if not {"block", "inline"} <= set(self.evaluator.settings.locations):
            return state
        order = {name: k for k, name in enumerate(self.bound.funcs)}
        for piece in sorted(state.pieces, key=lambda p: -order[p.sketch.func])[:MOST_KERNELS]:
            if self.late():
                break
            group = row_group(self.bound, piece.sketch.func) if piece in state.pieces else None
            if group is not None:
                state = self._extended(state, group)
        return state

    def _extended(self, state: State, group: RowGroup) -> State:
        """Return a state with the kernel of one group; the state itself if that is no faster."""
        inside = {group.func, *group.producers}
        pieces = [p for p in state.pieces if p.sketch.func not in inside]
        kept = sum(self.evaluator.verdict(p.sketch, p.params).cost for p in pieces)
        best = self._fastest(group)
        if best is None or not kept + self._cost(best) < state.cost:
            return state
        pieces.append(PartialKernel(*best, tiled=True))
        levels = dict(state.levels)
        for name in group.producers:
            location = best[0].location(name)
            levels[name] = Level.INLINE if location is None else location.level
        levels[group.func] = Level.ROOT
        costs = tuple(self.evaluator.verdict(p.sketch, p.params).cost for p in pieces)
        return State(tuple(pieces), costs, levels, sum(costs), state.steps)

    def _fastest(self, group: RowGroup) -> Kernel | None:
        """Return the fastest legal kernel of a group found by coordinate descent; None if there is none."""
        pure = [n for n in group.producers if self.enumerator.compute_locations.can_inline(self.bound.funcs[n])]
        storage = RowStorage(frozenset(pure) & inlined_funcs(self.bound))
        best = self._cheapest(self._variants(group, storage))
        if best is None:
            return None
        for _ in range(MOST_SWEEPS):
            before = best
            steps: Sequence[Callable[[RowStorage], Iterator[RowStorage]]] = (
                partial(self._placements, pure), partial(self._copies, best[0]), partial(self._moves, pure),
            )  # fmt: skip
            for step in steps:
                for other in list(step(storage)):
                    found = None if self.late() else self._cheapest(self._variants(group, other))
                    if found is not None and self._cost(found) < self._cost(best):
                        best, storage = found, other
            if best == before or self.late():
                break
        return run_search(self.evaluator, Retiler(self.evaluator, self.enumerator, self.late).descend(*best))

    @staticmethod
    def _placements(pure: Sequence[str], storage: RowStorage) -> Iterator[RowStorage]:
        """Yield storages with one producer inlined that is not, or the reverse."""
        for name in pure:
            yield storage._replace(inlined=storage.inlined ^ {name}, private=storage.private - {name})

    def _copies(self, sketch: KernelSketch, storage: RowStorage) -> Iterator[RowStorage]:
        """Yield storages with one more or one less cache read, in shared memory and in registers."""
        for source in sorted(self._sources(sketch) | storage.copied):
            other = storage._replace(copied=storage.copied ^ {source}, private=storage.private - {cache_name(source)})
            yield other
            if source in other.copied:
                yield other._replace(private=other.private | {cache_name(source)})

    @staticmethod
    def _moves(pure: Sequence[str], storage: RowStorage) -> Iterator[RowStorage]:
        """Yield storages with producers and cache reads moved between shared memory and registers: all, then one."""
        movable = [*(n for n in pure if n not in storage.inlined), *map(cache_name, sorted(storage.copied))]
        yield storage._replace(private=frozenset(movable))
        for name in movable:
            yield storage._replace(private=storage.private ^ {name})

    def _cost(self, kernel: Kernel) -> float:
        return self.evaluator.verdict(*kernel).cost

    def _sources(self, sketch: KernelSketch) -> frozenset[str]:
        """Return the arrays in global memory that several nests read."""
        model = self.evaluator.kernel_model(sketch)
        inside = {sketch.func, *(s.func for s in sketch.locations)}
        readers = [{g.source for g in model.accesses_of(s).loads} - inside for s in model.rows]
        names = frozenset[str]().union(*readers)
        return frozenset(n for n in names if sum(n in r for r in readers) > 1)

    def _variants(self, group: RowGroup, storage: RowStorage) -> list[Kernel]:
        """Return the kernels with a storage, for several numbers of rows."""
        bound = insert_cache_reads(self.bound, storage.copied)
        root = StageId(group.func)
        members = [*(n for n in group.producers if n not in storage.inlined), *map(cache_name, storage.copied)]
        order = {name: k for k, name in enumerate(bound.funcs)}
        members.sort(key=order.__getitem__)
        locations = tuple(ComputeLocation(n, Level.BLOCK, root, private=n in storage.private) for n in members)
        orders = tuple(
            NestOrder(StageId(n, s.number), interleaved=tuple(bound.funcs[n].dims))
            for n in (group.func, *members)
            for s in bound.funcs[n].nonempty_stages
        )
        sketch = self.enumerator.compute_locations.one(KernelSketch((root,), locations, storage.inlined, orders=orders))
        if self.evaluator.kernel_model(sketch).overflow:
            return []
        tried = dict.fromkeys(self._params(group, sketch, rows) for rows in ROWS)
        return [(sketch, params) for params in tried if params is not None]

    def _params(self, group: RowGroup, sketch: KernelSketch, rows: int) -> Params | None:
        """Return the tile sizes for a number of rows of a block; None if there are fewer."""
        model = self.evaluator.kernel_model(sketch)
        bound, layout = model.bound, model.layout
        dims, sizes = model.grid.dims, dict(zip(model.grid.dims, model.grid.sizes.tolist(), strict=True))
        last = group.rows[-1]
        if rows > sizes[last] and rows > 1:
            return None
        lanes = self.evaluator.target.warp_size
        along = [d for d in dims if d not in group.rows]
        threads = {d: 1 for d in dims} | {last: rows} | {d: min(lanes, sizes[d]) for d in along[-1:]}
        serial = {d: 1 if d in group.rows else -(-sizes[d] // threads[d]) for d in dims}
        params = [*(threads[d] for d in dims), *(serial[d] for d in dims)]
        params += [1] * (layout.count - len(params))
        for name, extents in model.member_extents(np.array([params], np.int64)).items():
            points = extents[0].tolist()
            if math.prod(points) >= math.prod(bound.funcs[name].extents) > 1:
                return None
            params[layout.threads_of(name)] = _threads_of_member(points, rows, lanes)
        return tuple(params)

    def _cheapest(self, kernels: Sequence[Kernel]) -> Kernel | None:
        """Return the cheapest legal kernel, None if there is none."""
        self.evaluator.evaluate(kernels)
        ranked = sorted(kernels, key=lambda k: rounded_cost(self._cost(k)))
        retiler = Retiler(self.evaluator, self.enumerator, self.late)
        return next((k for k in ranked if math.isfinite(self._cost(k)) and retiler.is_legal(*k)), None)


def _threads_of_member(points: Sequence[int], rows: int, lanes: int) -> Params:
    """Return the threads of a producer: a warp along its last dimension, a warp for each row."""
    threads = [1] * len(points)
    whole = [k for k, n in enumerate(points) if n == rows]
    long = [k for k, n in enumerate(points) if n > 1 and (rows == 1 or k not in whole[:1])]
    if rows > 1 and whole:
        threads[whole[0]] = rows
    if long:
        threads[long[-1]] = min(lanes, points[long[-1]])
    return tuple(threads)


def row_group(bound: BoundPipeline, name: str) -> RowGroup | None:
    """Return the group of a pure Func and the producers that only it and its producers read; None without statistics.

    Statistics are warp reductions with some of the Func's dimensions.
    """
    func = bound.funcs[name]
    if not func.is_pure or not func.dims or 0 in func.extents:
        return None
    rows: set[str] = set()
    while True:  # producers without a dimension over rows are left out, and so are those that they read
        producers = _producers(bound, name, rows)
        owned = [set(f.dims) & set(func.dims) for f in map(bound.funcs.__getitem__, producers) if has_lanes(f)]
        common = set.intersection(*(d for d in owned if d), set(func.dims)) if any(owned) else set[str]()
        if not common or common == set(func.dims):
            return None
        if common == rows:
            break
        rows = common
    return RowGroup(name, tuple(d for d in func.dims if d in rows), tuple(f for f in bound.funcs if f in producers))


def _producers(bound: BoundPipeline, name: str, rows: Collection[str]) -> list[str]:
    """Return the Funcs with given dimensions that only a Func and such producers of it read, consumers first."""
    producers: list[str] = []
    for other, f in reversed(list(bound.funcs.items())):
        if other == name or f.is_output or f.undefined or 0 in f.extents or any(n is not None for n in f.fixed):
            continue
        if f.consumers and set(f.consumers) <= {name, *producers} and set(rows) <= set(f.dims):
            producers.append(other)
    return producers
