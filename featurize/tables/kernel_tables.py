"""A kernel sketch as arrays: rows of the descriptor tables, and the relations between nests and accesses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundFunc
from autosched.analysis.expressions.operation_count import operations
from autosched.featurize.accesses.accesses import AccessGroup
from autosched.featurize.regions.memory_kinds import GLOBAL, REGISTER, SHARED
from autosched.featurize.regions.nest_location import NestLocation
from autosched.featurize.regions.required_regions import RequiredRegions
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch, TileColumns
from autosched.featurize.sketch.sketch_analysis import SketchAnalysis
from autosched.featurize.tables.descriptor_tables import BLOCK, LEVELS, OWN_MEMORY, ROOT, THREAD, DescriptorTables
from autosched.schedule.types import Level, StageId

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class KernelTables:
    """The arrays of one sketch; nests and accesses are numbered within the kernel.

    Attributes:
        nests: ``int64[K]``, rows of `DescriptorTables.nests`, in the order of the rows of features.
        hosts: ``int64[K]``, the nest that encloses each thread-level producer; other nests themselves.
        columns: ``int64[K]``, first parameter column of the threads of block-level producers.
        points: ``int64[K]``, first column of their points per thread, which searches do not decide.
        width: Number of parameter columns, ``points`` included.
        demands: ``int64[K]``, location of each fused producer in `RequiredRegions`, -1 for roots.
        rounds: ``int64[K]``, nesting depth of thread-level producers.
        grid: ``int64[K, D]``, for each dimension of a nest the root's dimension of the same name, -1 if there is none.
        groups_of: ``int64[K]``, points of the aligned groups along a producer's rows, 0 without alignment.
        aligned: Whether there is an aligned producer.
        stored: ``int64[K]``, 1 for producers that are materialised.
        layouts: ``int64[K]``, number of the loops that enclose each nest inside a thread.
        loops: Most loops that enclose a nest inside a thread.
        accesses: ``int64[A]``, rows of `DescriptorTables.access`, nest by nest.
        readers: ``int64[A]``, the nest of each access.
        sources: ``int64[A]``, the nest that computes the accessed array, -1 if it is outside the kernel.
        groups: Nest, access group, and whether the group stores, for each access.
        where: Location of each nest in `DescriptorTables.locations`.
        pairs: ``int64[P, 3]``: an access, an earlier one by the same threads, and the number of its earlier pairs.
        buffers: ``int64[B, 4]``: nest, bytes of an element, first and last step of each buffer in shared memory.
        inlined: ``int64[I, 4]``: points, bytes and branching of each inlined Func, and whether it is trivial.
        calls: ``int64[K, I]``, evaluations by each nest's points.
        linear_threads: Whether nests number their threads by a linear index.
        warps: Warps of a block that have a tile each; 0 where a block has one tile.
    """

    nests: Ints
    hosts: Ints
    columns: Ints
    points: Ints
    width: int
    demands: Ints
    rounds: Ints
    grid: Ints
    groups_of: Ints
    aligned: bool
    stored: Ints
    layouts: Ints
    loops: int
    accesses: Ints
    readers: Ints
    sources: Ints
    groups: tuple[tuple[int, AccessGroup, bool], ...]
    where: tuple[int, ...]
    pairs: Ints
    buffers: Ints
    inlined: Ints
    calls: Ints
    linear_threads: bool
    warps: int


@dataclass(frozen=True)
class _AccessColumns:
    """Access columns of `KernelTables` under construction."""

    rows: list[int] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    groups: list[tuple[int, AccessGroup, bool]] = field(default_factory=list)

    def add(self, row: int, source: int, group: tuple[int, AccessGroup, bool]) -> None:
        self.rows.append(row)
        self.sources.append(source)
        self.groups.append(group)


class KernelTableBuilder:
    """Builds the tables of a pipeline's sketches.

    Args:
        kinds: Descriptors of nests and accesses.
        demands: Required regions of fused producers.
    """

    def __init__(self, kinds: DescriptorTables, demands: RequiredRegions) -> None:
        self.kinds = kinds
        self.demands = demands
        self.bound = kinds.bound
        self._cache: dict[SketchAnalysis, KernelTables] = {}
        self._split: dict[int, tuple[AccessGroup, tuple[AccessGroup, ...]]] = {}
        self._inlined_funcs: dict[str, tuple[int, int, int]] = {}

    def plan(self, sketch: KernelSketch, facts: SketchAnalysis, layout: TileColumns) -> KernelTables:
        """Return the tables of a sketch; sketches that differ only in undecided Funcs share most of them."""
        base = self._cache.get(facts)
        if base is None:
            base = self._cache[facts] = self._build(facts, layout)
        changed = [a for a, (_, group, _) in enumerate(base.groups) if group.source in sketch.near | sketch.far]
        if not changed:
            return base
        accesses = base.accesses.copy()
        for a in changed:
            k, group, store = base.groups[a]
            memory = SHARED if group.source in sketch.near else GLOBAL
            accesses[a] = self.kinds.accesses_at(base.where[k], group, store, memory, placed=False)
        return replace(base, accesses=accesses)

    def _build(self, facts: SketchAnalysis, layout: TileColumns) -> KernelTables:
        s = facts.sketch
        locations = [s.location(r.func) for r in facts.rows]
        levels = [ROOT if location is None else LEVELS[location.level] for location in locations]
        position = {stage: k for k, stage in enumerate(facts.rows)}
        first: dict[str, int] = {}
        for stage, k in position.items():
            first.setdefault(stage.func, k)
        where = [self._location(facts, r, v) for r, v in zip(facts.rows, levels, strict=True)]
        hosts, demands, rounds = self._hosts(facts, levels, position)
        threads = dict(layout.members)
        columns = [threads[r.func].start if v == BLOCK else 0 for r, v in zip(facts.rows, levels, strict=True)]
        accesses = self._accesses(facts, levels, where, first)
        inner = [d for d, v in zip(demands, levels, strict=True) if v == THREAD]
        return KernelTables(
            nests=_ints(self.kinds.nest(w, facts.accesses[r]) for w, r in zip(where, facts.rows, strict=True)),
            hosts=_ints(hosts),
            columns=_ints(columns),
            points=_ints(c + layout.count - layout.root_serial.stop for c in columns),
            width=2 * layout.count - layout.root_serial.stop,
            demands=_ints(demands),
            rounds=_ints(rounds),
            grid=self._grid(facts),
            groups_of=_ints(0 if p is None or p.aligned is None else p.aligned[0] for p in locations),
            aligned=any(p.aligned is not None for p in s.locations),
            stored=_ints(int(p is not None and p.stored) for p in locations),
            layouts=_ints(self.demands.layout(d) if v == THREAD else 0 for d, v in zip(demands, levels, strict=True)),
            loops=max(map(self.demands.loops_around, inner), default=0),
            accesses=_ints(accesses.rows),
            readers=_ints(k for k, _, _ in accesses.groups),
            sources=_ints(accesses.sources),
            groups=tuple(accesses.groups),
            where=tuple(where),
            pairs=_pairs(facts, position, accesses.groups),
            buffers=self._buffers(facts, first),
            inlined=self._inlined(facts),
            calls=_calls(facts),
            linear_threads=s.linear_threads,
            warps=math.prod(n for _, n in s.warps) if s.warps else 0,
        )

    def _location(self, facts: SketchAnalysis, stage: StageId, level: int) -> int:
        """Return the number of a nest's location."""
        s = facts.sketch
        location = s.location(stage.func)
        stages = s.stages if level == ROOT else tuple(facts.stages_of(stage.func))
        private = location is not None and location.private
        reads = (s.location(g.source) for g in facts.accesses[stage].loads)
        registers = private or any(p is not None and p.private for p in reads)
        return self.kinds.location_number(
            NestLocation(stage, level, stages, s.order(stage), location.storage if location else (), private, registers)
        )

    def _accesses(
        self, facts: SketchAnalysis, levels: Sequence[int], where: Sequence[int], first: Mapping[str, int]
    ) -> _AccessColumns:
        """Return the groups of accesses, nest by nest; a materialised producer stores twice."""
        s = facts.sketch
        columns = _AccessColumns()
        for k, stage in enumerate(facts.rows):
            accesses = facts.accesses[stage]
            loads = [part for g in accesses.loads for part in self._parts(facts, g, stage)]
            for group, store in [(g, False) for g in loads] + [(g, True) for g in accesses.stores]:
                is_result = group.source == stage.func
                location = s.location(group.source)
                memory = OWN_MEMORY[levels[k] if is_result else ROOT if location is None else LEVELS[location.level]]
                memory = REGISTER if location is not None and _in_registers(facts, location, group, store) else memory
                row = self.kinds.accesses_at(where[k], group, store, memory, placed=True)
                columns.add(row, first.get(group.source, -1), (k, group, store))
                if store and is_result and location is not None and location.stored:
                    row = self.kinds.accesses_at(where[k], group, store, GLOBAL, placed=True)
                    columns.add(row, -1, (k, group, store))
        return columns

    def _parts(self, facts: SketchAnalysis, group: AccessGroup, stage: StageId) -> tuple[AccessGroup, ...]:
        """Return a group of loads, in two parts if it reads registers and shared memory."""
        location = facts.sketch.location(group.source)
        if location is None or not location.private or group.source == stage.func:
            return (group,)
        if not facts.has_shared_rows(group.source):
            return (group,)
        parts = self._split.get(id(group))
        if parts is None:
            parts = self._split[id(group)] = (group, facts.own_and_moved(group))
        return parts[1]

    def _hosts(
        self, facts: SketchAnalysis, levels: Sequence[int], position: Mapping[StageId, int]
    ) -> tuple[list[int], list[int], list[int]]:
        """Return the host, the required region and the nesting depth of each nest."""
        s = facts.sketch
        inside = frozenset(p.func for p in s.locations) | s.inlined
        in_threads = frozenset(p.func for p in s.locations if p.level is Level.THREAD) | s.inlined
        hosts = list(range(len(levels)))
        demands = [-1] * len(levels)
        rounds = [0] * len(levels)
        for k, stage in enumerate(facts.rows):  # hosts come before their producers
            location = s.location(stage.func)
            if location is None:
                continue
            if location.level is Level.BLOCK:
                demands[k] = self.demands.block(s, location.func, inside)
                continue
            host = hosts[k] = position[location.host]
            rounds[k] = rounds[host] + 1
            level = (Level.ROOT, Level.BLOCK, Level.THREAD)[levels[host]]
            stages = s.stages if level is Level.ROOT else (location.host,)
            around = demands[host] if level is Level.THREAD else -1
            dims = self.kinds.dims_of(levels[host], stages)
            demands[k] = self.demands.thread(location, level, dims, in_threads, around)
        return hosts, demands, rounds

    def _grid(self, facts: SketchAnalysis) -> Ints:
        """Return `KernelTables.grid`."""
        grid = np.full((len(facts.rows), self.kinds.dims), -1, np.int64)
        root = facts.dims[0]
        for k, dims in enumerate(facts.dims):
            grid[k, : len(dims)] = [root.index(d) if d in root else -1 for d in dims]
        return grid

    def _buffers(self, facts: SketchAnalysis, first: Mapping[str, int]) -> Ints:
        rows = [
            (first[name], d.bytes_, *span)
            for name, span in facts.lifetimes.items()
            for d in self.bound.funcs[name].dtypes
        ]
        return np.array(rows, np.int64).reshape(len(rows), 4)

    def _inlined(self, facts: SketchAnalysis) -> Ints:
        rows = []
        for name in facts.inlined:
            if name not in self._inlined_funcs:
                self._inlined_funcs[name] = _inlined_func(self.bound.funcs[name])
            points, bytes_, trivial = self._inlined_funcs[name]
            branching = self.kinds.work.branching(self.bound.funcs[name].stages[0], facts.sketch.inlined)
            rows.append((points, bytes_, branching, trivial))
        return np.array(rows, np.int64).reshape(len(rows), 4)


def _in_registers(facts: SketchAnalysis, location: ComputeLocation, group: AccessGroup, store: bool) -> bool:
    """Whether a group accesses registers of a private producer; rows of a sliding window may be in shared memory."""
    if not location.private or not facts.has_shared_rows(location.func):
        return location.private
    return not store and facts.are_own(group)


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), np.int64)


def _calls(facts: SketchAnalysis) -> Ints:
    """Return the evaluations of each inlined Func by each nest's points, ``int64[K, I]``."""
    calls = [[facts.accesses[r].calls.get(f, 0) for f in facts.inlined] for r in facts.rows]
    return np.array(calls, np.int64).reshape(len(facts.rows), len(facts.inlined))


def _inlined_func(func: BoundFunc) -> tuple[int, int, int]:
    """Return the points and bytes of an inlined Func, and whether it is trivial."""
    points = math.prod(func.extents)
    return points, points * sum(d.bytes_ for d in func.dtypes), int(_is_trivial(func))


def _is_trivial(func: BoundFunc) -> bool:
    """Whether recomputing a Func is always cheap: a copy or a few operations."""
    stage = func.stages[0]
    is_cheap = operations(stage) + sum(stage.load_counts.values()) <= 1 + max(d.bytes_ for d in func.dtypes)
    return func.boundary is not None or is_cheap


def _pairs(
    facts: SketchAnalysis, position: Mapping[StageId, int], groups: Sequence[tuple[int, AccessGroup, bool]]
) -> Ints:
    """Return pairs of loads of one array by the same threads without a barrier between them, see `KernelTables`."""
    loads: dict[int, list[int]] = {k: [] for k in range(len(facts.rows))}
    for a, (k, group, _) in enumerate(groups):
        if group.source != facts.rows[k].func:
            loads[k].append(a)
    pairs = []
    for k, stage in enumerate(facts.rows):
        before = [a for e in facts.earlier[stage] for a in loads[position[e]]]
        for a in loads[k]:
            comparable = [b for b in before if _comparable(groups[a][1], groups[b][1])]
            pairs += [(a, b, slot) for slot, b in enumerate(comparable)]
            before.append(a)
    return np.array(pairs, np.int64).reshape(len(pairs), 3)


def _comparable(a: AccessGroup, b: AccessGroup) -> bool:
    """Whether equality of the elements that two groups access follows from their indices alone."""
    return (
        (a.source, a.component) == (b.source, b.component)
        and a.is_affine
        and b.is_affine
        and all(
            r is not None and s is not None and r.quotient == s.quotient for r, s in zip(a.rows, b.rows, strict=True)
        )
    )
