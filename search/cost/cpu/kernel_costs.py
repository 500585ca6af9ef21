"""What is known of the nests of a kernel on a CPU before tile sizes are: work, arrays, what moves with what."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple, fields
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.featurizer import SketchFeaturizer
from autosched.featurize.sketch.sketch import inner_order
from autosched.schedule.policy import array_strides
from autosched.search.cost.cpu.l1_conflicts import associativity, conflict_misses, may_conflict
from autosched.search.cost.cpu.lane_costs import LaneCosts, LaneWorks
from autosched.search.cost.cpu.stage_costs import KnownWork
from autosched.search.cost.cpu.unroll_and_jam_savings import saved_loads

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FIELD = {f.name: k for k, f in enumerate(fields(LaneCosts))}
"""Column of each field of a `LaneCosts` in arrays."""


class CpuKernelCosts:
    """What is known of the nests of a structure on a CPU without tile sizes.

    Args:
        model: The structure.
        known: See `LaneWorks`.
    """

    def __init__(self, model: SketchFeaturizer, known: KnownWork):
        self._model = model
        self._works = LaneWorks(model, known)
        self._facts = model.facts
        self._carriers = [self._carrier(k) for k in range(len(model.rows))]
        self._vectors: dict[tuple[int, int], Floats] = {}
        self._evenly_far: dict[tuple[int, int], tuple[Ints, Bools]] = {}
        self._spared: dict[tuple[int, int, int], Floats | None] = {}
        self._lost: dict[tuple[int, int, int, int], float] = {}

    def work(self, row: int, lane: int) -> Floats:
        """Return the fields of the `LaneCosts` of a nest whose carrier's lanes walk the dimension of that number."""
        key = row, lane
        if key not in self._vectors:
            dims = self._facts.dims[self._carriers[row]]
            found = self._works.of(self._facts.rows[row], dims[lane] if dims else None)
            self._vectors[key] = np.array(astuple(found), np.float64)
        return self._vectors[key]

    def evenly_far(self, row: int, lane: int) -> tuple[Ints, Bools]:
        """Return loads of lanes evenly far apart, ``int64[G]`` of G arrays.

        Beside it, ``bool[G, D]``: along which dimensions of the nest they are the same.
        """
        key = row, lane
        if key not in self._evenly_far:
            dims, own = self._facts.dims[self._carriers[row]], self._facts.dims[row]
            found = []
            if dims and self.work(row, lane)[FIELD["even"]]:
                found = self._works.evenly_far(self._facts.rows[row], dims[lane], own)
            same = np.array([s for _, s in found], bool).reshape(len(found), len(own))
            self._evenly_far[key] = np.array([n for n, _ in found], np.int64), same
        return self._evenly_far[key]

    def spared_by_rows(self, row: int, lane: int, dim: int) -> Floats | None:
        """Return what `saved_loads` does of a nest with threads of its own, whose lanes and rows walk dimensions."""
        key = row, lane, dim
        if key not in self._spared:
            dims, operations = self._facts.dims[row], float(self.work(row, lane)[FIELD["operations"]])
            self._spared[key] = saved_loads(
                self._model, self._works, self._facts.rows[row], dims[lane], dims[dim], operations
            )
        return self._spared[key]

    @cached_property
    def may_meet(self) -> bool:
        """Whether rows of some array fall on few sets of the first-level cache, see `nearest_cache`."""
        return may_conflict(self._model)

    def accesses_lost(self, row: int, lane: int, dim: int, together: int) -> float:
        """Return what `nearest_cache.accesses_lost` does of a nest of whose rows so many are taken together."""
        walked = dim if together > 1 else lane  # one row walks nothing, and its dimension may be none
        key = row, lane, walked, together
        if key not in self._lost:
            dims = self._facts.dims[self._carriers[row]]
            self._lost[key] = 0.0
            if dims:
                stage, ways = self._facts.rows[row], associativity(self._model.tables.target.processor)
                self._lost[key] = conflict_misses(
                    self._model, self._works, stage, dims[lane], dims[walked], together, ways
                )
        return self._lost[key]

    @cached_property
    def depths(self) -> Ints:
        """``int64[rows, D]``: how far inside each dimension's loop over a thread's points is, the innermost most."""
        facts = self._facts
        found = np.full((len(facts.rows), max((len(d) for d in facts.dims), default=1) or 1), -1, np.int64)
        for k, (stage, dims) in enumerate(zip(facts.rows, facts.dims, strict=True)):
            bound, listed = facts.bound.stage(stage.func, stage.number), facts.structure.order(stage).inner
            order = inner_order(bound, dims, listed)
            found[k, : len(dims)] = [order.index(d) if d in order else -1 for d in dims]
        return found

    @cached_property
    def borders(self) -> Ints:
        """``int64[rows, D]``: ends of each dimension of the root at which boundary conditions set blocks apart."""
        facts = self._facts
        found = np.zeros((len(facts.rows), max(len(facts.dims[0]), 1)), np.int64)
        for k, stage in enumerate(facts.rows):
            carrier, ends = self._carriers[k], set()
            for dim, root in zip(facts.dims[carrier], self.walked_by[carrier].tolist(), strict=False):
                for b in self._works.boundaries_along(stage, dim) if root else ():
                    ends |= {(root - 1, end) for end, points in enumerate((b.below, b.above)) if points}
            for at, _ in ends:
                found[k, at] += 1
        return found

    @cached_property
    def sizes(self) -> Ints:
        """``int64[rows, D]``: points of the root in each of its dimensions, the same for all nests; 0 in reductions."""
        facts, dims = self._facts, self._facts.dims[0]
        func = facts.bound.funcs[facts.rows[0].func]
        extents = dict(zip(func.dims, func.extents, strict=True))
        found = np.zeros((len(facts.rows), max(len(dims), 1)), np.int64)
        found[:, : len(dims)] = [extents.get(d, 0) for d in dims]
        return found

    @cached_property
    def strides(self) -> Ints:
        """``int64[rows, D]``: bytes between neighbours of each nest's dimensions in an array of the stage's result."""
        facts = self._facts
        found = np.zeros((len(facts.rows), max((len(d) for d in facts.dims), default=1) or 1), np.int64)
        for k, stage in enumerate(facts.rows):
            func = facts.bound.funcs[stage.func]
            size = min(d.bytes_ for d in func.dtypes)
            strides, count = array_strides(func.extents, size, pitched=not func.is_output)
            steps = dict(zip(func.dims, strides, strict=True))
            found[k, : len(facts.dims[k])] = [size * steps.get(d, count) for d in facts.dims[k]]
        return found

    @cached_property
    def walked_by(self) -> Ints:
        """``int64[rows, D]``: the dimension of the root, from 1, that moves each nest's from block to block; 0: none.

        Of several it is the outermost.
        """
        facts = self._facts
        found = np.zeros((len(facts.rows), max((len(d) for d in facts.dims), default=1) or 1), np.int64)
        for k, dims in enumerate(facts.dims):
            found[k, : len(dims)] = [min(self._root_dims[facts.rows[k].func].get(d, {0})) for d in dims]
        return found

    @cached_property
    def _root_dims(self) -> dict[str, dict[str, set[int]]]:
        """For each Func with loops in the kernel, the root's dimensions, from 1, that move each of its dimensions."""
        facts = self._facts
        found = {s.func: {d: {k} for k, d in enumerate(facts.dims[0], 1)} for s in facts.structure.stages}
        for spot in reversed(facts.structure.spots):  # consumers first
            found[spot.func] = self._moved_through(spot.func, found)
        return found

    def _moved_through(self, func: str, consumers: dict[str, dict[str, set[int]]]) -> dict[str, set[int]]:
        """Return the root's dimensions that move those of a Func through the indices of what reads it."""
        facts = self._facts
        found: dict[str, set[int]] = {}
        for stage in (s for s in facts.rows if s.func in consumers):
            for group in (g for g in facts.accesses[stage].loads if g.source == func):
                for dim, index in zip(facts.bound.funcs[func].dims, group.rows, strict=True):
                    loops = () if index is None else [loop for loop, _ in index.coefficients]
                    found.setdefault(dim, set()).update(*(consumers[stage.func].get(loop, set()) for loop in loops))
        return {dim: by for dim, by in found.items() if by}

    @cached_property
    def arrays(self) -> Ints:
        """``int64[rows]``: arrays in global memory that each nest reads and writes."""
        facts = self._facts
        return np.array([
            (facts.structure.spot(s.func) is None)
            + len({g.source for g in facts.accesses[s].loads if facts.structure.spot(g.source) is None})
            for s in facts.rows
        ])  # fmt: skip

    @cached_property
    def outside(self) -> Floats:
        """``float64[rows]``: bytes of the arrays in global memory that each nest reads."""
        return np.array([float(sum(arrays.values())) for arrays in self._read])

    @cached_property
    def share(self) -> Floats:
        """``float64[rows]``: share of these bytes that falls to each nest, where several read the same array."""
        readers = Counter(array for arrays in self._read for array in arrays)
        own = [sum(size / readers[array] for array, size in arrays.items()) for arrays in self._read]
        return np.array(own) / np.maximum(self.outside, 1)

    @cached_property
    def _read(self) -> list[dict[tuple[str, int], int]]:
        """For each nest the bytes of the arrays in global memory that it reads, by name and component."""
        facts = self._facts
        return [
            {
                (g.source, g.component): self._points(g.source) * facts.itemsize(g)
                for g in facts.accesses[stage].loads
                if g.source != stage.func and facts.structure.spot(g.source) is None
            }
            for stage in facts.rows
        ]

    def _points(self, source: str) -> int:
        bound = self._facts.bound
        return prod(bound.inputs[source].shape if source in bound.inputs else bound.funcs[source].extents)

    def _carrier(self, row: int) -> int:
        """Return the nest with threads of its own in which a nest is."""
        rows = self._facts.rows
        while rows[row] not in self._facts.carriers:
            spot = self._facts.structure.spot(rows[row].func)
            assert spot is not None, "a stage without threads of its own has a host"
            row = rows.index(spot.host)
        return row
