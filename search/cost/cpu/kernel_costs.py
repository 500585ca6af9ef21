"""Costs of a kernel's nests on a CPU that do not depend on tile sizes: work, arrays, dependences of dimensions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cached_property
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.accesses.accesses import StageAccesses
from autosched.featurize.featurizer import SketchFeaturizer
from autosched.featurize.sketch.sketch import inner_order
from autosched.schedule.policy import array_strides
from autosched.search.cost.cpu.l1_conflicts import associativity, conflict_misses, may_conflict
from autosched.search.cost.cpu.lane_costs import COLUMNS, LaneWorks, NestContext
from autosched.search.cost.cpu.stage_costs import StageCostCache
from autosched.search.cost.cpu.unroll_and_jam_savings import saved_addresses, saved_loads

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

T = TypeVar("T")
NestCostCache = dict[tuple[object, ...], tuple[StageAccesses, Any]]
"""Values of nests by kind and context. Accesses are stored too, so that their id in the context stays valid."""

FIELD = {name: k for k, name in enumerate(COLUMNS)}
"""Column of each field of a `LaneCosts` in arrays."""


class CpuKernelCosts:
    """Costs of the nests of a sketch on a CPU, without tile sizes. Nests and dimensions are given by number.

    Args:
        model: The sketch.
        cache: See `LaneWorks`.
        nest_cache: Costs of nests of other sketches; entries are added. None without any.
    """

    def __init__(self, model: SketchFeaturizer, cache: StageCostCache, nest_cache: NestCostCache | None = None) -> None:
        self._model = model
        self._works = LaneWorks(model, cache)
        self._nest_cache = {} if nest_cache is None else nest_cache
        self._contexts: dict[tuple[int, int], NestContext] = {}
        self._facts = model.facts
        self._carriers = [self._carrier(k) for k in range(len(model.rows))]
        self._costs: dict[tuple[int, int], Floats] = {}
        self._evenly_far: dict[tuple[int, int], tuple[Ints, Bools]] = {}
        self._savings: dict[tuple[int, int, int], Floats | None] = {}
        self._gather_savings: dict[tuple[int, int, int], Floats | None] = {}
        self._conflicts: dict[tuple[int, int, int, int], float] = {}
        self._collapses: dict[tuple[int, int, int, int], bool] = {}

    def work(self, row: int, lane: int) -> Floats:
        """Return the `LaneCosts` of a nest, ``float64[COLUMNS]``, for lanes along a dimension of its carrier."""
        key = row, lane
        if key not in self._costs:
            dims = self._facts.dims[self._carriers[row]]
            self._costs[key] = self._shared(
                ("work",), row, lane, lambda: self._works.row_of(self._facts.rows[row], dims[lane] if dims else None)
            )
        return self._costs[key]

    def evenly_far(self, row: int, lane: int) -> tuple[Ints, Bools]:
        """Return the loads of a nest whose lanes lie at a constant distance that is too far for vectors.

        Returns:
            ``int64[G]``, loads of G arrays, and ``bool[G, D]``, whether they are uniform along each dimension of the
            nest.
        """
        key = row, lane
        if key not in self._evenly_far:
            dims, nest_dims = self._facts.dims[self._carriers[row]], self._facts.dims[row]
            loads = []
            if dims and self.work(row, lane)[FIELD["even"]]:
                loads = self._works.evenly_far(self._facts.rows[row], dims[lane], nest_dims)
            same = np.array([s for _, s in loads], bool).reshape(len(loads), len(nest_dims))
            self._evenly_far[key] = np.array([n for n, _ in loads], np.int64), same
        return self._evenly_far[key]

    def collapses(self, row: int, lane: int, dim: int, count: int) -> bool:
        """Return `LaneWorks.collapses` of a nest with threads, for lanes and points along two of its dimensions."""
        key = row, lane, dim, count
        if key not in self._collapses:
            stage, dims = self._facts.rows[row], self._facts.dims[row]
            terms = self.work(row, lane)[FIELD["terms"]]
            self._collapses[key] = terms == 1 and self._works.collapses(stage, dims[lane], dims[dim], count)
        return self._collapses[key]

    def jam_savings(self, row: int, lane: int, dim: int) -> Floats | None:
        """Return the `saved_loads` of a nest with threads of its own, for lanes and rows along dimensions of it."""
        key = row, lane, dim
        if key not in self._savings:
            dims, operations = self._facts.dims[row], float(self.work(row, lane)[FIELD["operations"]])
            self._savings[key] = self._shared(
                ("savings", dims[dim]), row, lane,
                lambda: saved_loads(
                    self._model, self._works, self._facts.rows[row], dims[lane], dims[dim], operations
                ),
            )  # fmt: skip
        return self._savings[key]

    def gather_savings(self, row: int, lane: int, dim: int) -> Floats | None:
        """Return the `saved_addresses` of a nest with threads of its own, for lanes and rows along dimensions of it."""
        key = row, lane, dim
        if key not in self._gather_savings:
            dims = self._facts.dims[row]
            self._gather_savings[key] = self._shared(
                ("addresses", dims[dim]), row, lane,
                lambda: saved_addresses(self._model, self._works, self._facts.rows[row], dims[lane], dims[dim]),
            )  # fmt: skip
        return self._gather_savings[key]

    @cached_property
    def gathers(self) -> Ints:
        """``int64[rows, 1]``: whether addresses of each nest's loads depend on values, loaded or computed."""
        facts = self._facts
        return np.array([[any(g.by_data for g in facts.accesses[stage].loads)] for stage in facts.rows], np.int64)

    def _shared(self, kind: tuple[str, ...], row: int, lane: int, value: Callable[[], T]) -> T:
        """Return a value of a nest that depends on its context and ``kind`` alone, from the cache of all sketches."""
        if (row, lane) not in self._contexts:
            dims = self._facts.dims[self._carriers[row]]
            self._contexts[row, lane] = self._works.context(self._facts.rows[row], dims[lane] if dims else None)
        access = self._facts.accesses[self._facts.rows[row]]
        key = kind, *self._contexts[row, lane]
        entry = self._nest_cache.get(key)
        if entry is None:
            entry = self._nest_cache[key] = access, value()
        result: T = entry[1]
        return result

    @cached_property
    def may_conflict(self) -> bool:
        """Whether rows of some array fall on few sets of the first-level cache, see `l1_conflicts.may_conflict`."""
        return may_conflict(self._model)

    def conflict_misses(self, row: int, lane: int, dim: int, jammed: int) -> float:
        """Return the `l1_conflicts.conflict_misses` of a nest with ``jammed`` rows of lanes along a dimension."""
        row_dim = dim if jammed > 1 else lane  # a single row needs no dimension, and may have none
        key = row, lane, row_dim, jammed
        if key not in self._conflicts:
            dims = self._facts.dims[self._carriers[row]]
            self._conflicts[key] = 0.0
            if dims:
                stage, ways = self._facts.rows[row], associativity(self._model.tables.target.processor)
                self._conflicts[key] = conflict_misses(
                    self._model, self._works, stage, dims[lane], dims[row_dim], jammed, ways
                )
        return self._conflicts[key]

    @cached_property
    def depths(self) -> Ints:
        """``int64[rows, D]``: depth of each dimension's loop over a thread's points, largest for the innermost."""
        facts = self._facts
        depths = np.full((len(facts.rows), self._most_dims), -1, np.int64)
        for k, (stage, dims) in enumerate(zip(facts.rows, facts.dims, strict=True)):
            bound, listed = facts.bound.stage(stage.func, stage.number), facts.sketch.order(stage).inner
            order = inner_order(bound, dims, listed)
            depths[k, : len(dims)] = [order.index(d) if d in order else -1 for d in dims]
        return depths

    @cached_property
    def borders(self) -> Ints:
        """``int64[rows, D]``: ends of each dimension of the root where blocks evaluate boundary conditions."""
        facts = self._facts
        borders = np.zeros((len(facts.rows), max(len(facts.dims[0]), 1)), np.int64)
        for k, stage in enumerate(facts.rows):
            carrier, ends = self._carriers[k], set()
            for dim, root in zip(facts.dims[carrier], self.root_dims[carrier].tolist(), strict=False):
                for b in self._works.boundaries_along(stage, dim) if root else ():
                    ends |= {(root - 1, end) for end, points in enumerate((b.below, b.above)) if points}
            for at, _ in ends:
                borders[k, at] += 1
        return borders

    @cached_property
    def sizes(self) -> Ints:
        """``int64[rows, D]``: extents of the root's dimensions, equal for all nests; 0 for reduction dimensions."""
        facts, dims = self._facts, self._facts.dims[0]
        func = facts.bound.funcs[facts.rows[0].func]
        extents = dict(zip(func.dims, func.extents, strict=True))
        sizes = np.zeros((len(facts.rows), max(len(dims), 1)), np.int64)
        sizes[:, : len(dims)] = [extents.get(d, 0) for d in dims]
        return sizes

    @cached_property
    def strides(self) -> Ints:
        """``int64[rows, D]``: bytes between neighbours along each of a nest's dimensions in the stage's result."""
        facts = self._facts
        result = np.zeros((len(facts.rows), self._most_dims), np.int64)
        for k, stage in enumerate(facts.rows):
            func = facts.bound.funcs[stage.func]
            size = min(d.bytes_ for d in func.dtypes)
            strides, count = array_strides(func.extents, size, pitched=not func.is_output)
            steps = dict(zip(func.dims, strides, strict=True))
            result[k, : len(facts.dims[k])] = [size * steps.get(d, count) for d in facts.dims[k]]
        return result

    @cached_property
    def root_dims(self) -> Ints:
        """``int64[rows, D]``: the root's dimension, from 1, that shifts each nest's dimension between blocks; 0: none.

        The outermost one, if there are several.
        """
        facts = self._facts
        result = np.zeros((len(facts.rows), self._most_dims), np.int64)
        for k, dims in enumerate(facts.dims):
            result[k, : len(dims)] = [min(self._root_dims_by_func[facts.rows[k].func].get(d, {0})) for d in dims]
        return result

    @property
    def _most_dims(self) -> int:
        """Dimensions of the nest with most of them, at least 1."""
        return max((len(d) for d in self._facts.dims), default=1) or 1

    @cached_property
    def _root_dims_by_func(self) -> dict[str, dict[str, set[int]]]:
        """By Func with loops in the kernel and dimension: the root's dimensions, from 1, that shift it."""
        facts = self._facts
        result = {s.func: {d: {k} for k, d in enumerate(facts.dims[0], 1)} for s in facts.sketch.stages}
        for location in reversed(facts.sketch.locations):  # consumers first
            result[location.func] = self._root_dims_of(location.func, result)
        return result

    def _root_dims_of(self, func: str, consumers: dict[str, dict[str, set[int]]]) -> dict[str, set[int]]:
        """Return the root's dimensions that shift those of a Func through the indices of its readers."""
        facts = self._facts
        result: dict[str, set[int]] = {}
        for stage in (s for s in facts.rows if s.func in consumers):
            for group in (g for g in facts.accesses[stage].loads if g.source == func):
                for dim, index in zip(facts.bound.funcs[func].dims, group.rows, strict=True):
                    loops = () if index is None else [loop for loop, _ in index.coefficients]
                    result.setdefault(dim, set()).update(*(consumers[stage.func].get(loop, set()) for loop in loops))
        return {dim: by for dim, by in result.items() if by}

    @cached_property
    def arrays(self) -> Ints:
        """``int64[rows]``: number of arrays in global memory that each nest accesses."""
        facts = self._facts
        return np.array([
            (facts.sketch.location(s.func) is None)
            + len({g.source for g in facts.accesses[s].loads if facts.sketch.location(g.source) is None})
            for s in facts.rows
        ])  # fmt: skip

    @cached_property
    def global_bytes(self) -> Floats:
        """``float64[rows]``: bytes of the arrays in global memory that each nest reads."""
        return np.array([float(sum(arrays.values())) for arrays in self._read])

    @cached_property
    def global_share(self) -> Floats:
        """``float64[rows]``: each nest's share of these bytes, as several nests may read the same array."""
        readers = Counter(array for arrays in self._read for array in arrays)
        shares = [sum(size / readers[array] for array, size in arrays.items()) for arrays in self._read]
        return np.array(shares) / np.maximum(self.global_bytes, 1)

    @cached_property
    def _read(self) -> list[dict[tuple[str, int], int]]:
        """Bytes of the arrays in global memory that each nest reads, by name and component."""
        facts = self._facts
        return [
            {
                (g.source, g.component): self._points(g.source) * facts.itemsize(g)
                for g in facts.accesses[stage].loads
                if g.source != stage.func and facts.sketch.location(g.source) is None
            }
            for stage in facts.rows
        ]

    def _points(self, source: str) -> int:
        bound = self._facts.bound
        return prod(bound.inputs[source].shape if source in bound.inputs else bound.funcs[source].extents)

    def _carrier(self, row: int) -> int:
        """Return the nest with threads of its own that contains a nest."""
        rows = self._facts.rows
        while rows[row] not in self._facts.carriers:
            location = self._facts.sketch.location(rows[row].func)
            assert location is not None, "a stage without threads of its own has a host"
            row = rows.index(location.host)
        return row
