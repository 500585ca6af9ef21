"""A kernel structure as arrays: which kinds of nests and accesses it has, and how they hang together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundFunc
from autosched.analysis.expressions.operation_count import operations
from autosched.featurize.accesses.accesses import AccessGroup
from autosched.featurize.regions.memory_kinds import GLOBAL, SHARED
from autosched.featurize.regions.nest_location import NestLocation
from autosched.featurize.regions.required_regions import RequiredRegions
from autosched.featurize.sketch.sketch import KernelSketch, TileColumns
from autosched.featurize.sketch.sketch_analysis import SketchAnalysis
from autosched.featurize.tables.descriptor_tables import BLOCK, LEVELS, OWN_MEMORY, ROOT, THREAD, DescriptorTables
from autosched.schedule.types import Level, StageId

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class KernelTables:
    """One structure; positions of nests and accesses are those within the kernel.

    Attributes:
        nests: ``int64[K]``, kinds, in the order of the rows of features.
        hosts: ``int64[K]``, the nest around each THREAD Member, others themselves.
        columns: ``int64[K]``, first parameter column of the threads of nests that have some.
        points: ``int64[K]``, first parameter column of the points of their threads, beyond those of a search.
        width: Parameter columns, these included.
        demands: ``int64[K]``, what is needed of the Members, see `RequiredRegions`.
        rounds: ``int64[K]``, how many THREAD Members are around and including a nest.
        grid: ``int64[K, D]``, the root's dimension of the same name as each of a nest's, -1 if there is none.
        groups_of: ``int64[K]``, points of which an aligned Member needs whole groups along its rows, else 0.
        aligned: Whether there is such a Member.
        stored: ``int64[K]``, 1 if it is a Member that is written to global memory, too.
        layouts: ``int64[K]``, number of the list of loops around each nest inside a thread.
        loops: The most loops around a nest inside a thread.
        accesses: ``int64[A]``, kinds, nest by nest.
        readers: ``int64[A]``, their nests.
        sources: ``int64[A]``, the nest that computes what is accessed, -1 if that is outside.
        groups: Nest, accesses, and whether they store.
        where: Place of each nest, see `DescriptorTables`.
        pairs: ``int64[P, 3]``: an access, one before it by the same threads, and how many pairs it had before.
        buffers: ``int64[B, 4]``: nest, bytes of an element, first and last step of each buffer in shared memory.
        inlined: ``int64[I, 4]``: points, bytes and branching of each inlined Func, and whether it is next to nothing.
        calls: ``int64[K, I]``, evaluations by each nest's points.
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


class KernelTableBuilder:
    """Makes the plans of a pipeline's structures.

    Args:
        kinds: Kinds of nests and accesses.
        demands: What hosts need of Members.
    """

    def __init__(self, kinds: DescriptorTables, demands: RequiredRegions) -> None:
        self.kinds = kinds
        self.demands = demands
        self.bound = kinds.bound
        self._known: dict[SketchAnalysis, KernelTables] = {}
        self._own: dict[str, tuple[int, int, int]] = {}

    def plan(self, structure: KernelSketch, facts: SketchAnalysis, layout: TileColumns) -> KernelTables:
        """Return the plan of one structure; those that differ in what is not placed yet share most of it."""
        base = self._known.get(facts)
        if base is None:
            base = self._known[facts] = self._plan(facts, layout)
        changed = [a for a, (_, group, _) in enumerate(base.groups) if group.source in structure.near | structure.far]
        if not changed:
            return base
        accesses = base.accesses.copy()
        for a in changed:
            k, group, store = base.groups[a]
            memory = SHARED if group.source in structure.near else GLOBAL
            accesses[a] = self.kinds.accesses_at(base.where[k], group, store, memory, placed=False)
        return replace(base, accesses=accesses)

    def _plan(self, facts: SketchAnalysis, layout: TileColumns) -> KernelTables:
        s = facts.structure
        position = {stage: k for k, stage in enumerate(facts.rows)}
        first: dict[str, int] = {}
        for stage, k in position.items():
            first.setdefault(stage.func, k)
        levels = [ROOT if (spot := s.spot(r.func)) is None else LEVELS[spot.level] for r in facts.rows]
        together = [
            s.stages if v == ROOT else tuple(facts.stages_of(r.func)) for r, v in zip(facts.rows, levels, strict=True)
        ]
        where = [
            self.kinds.place(
                NestLocation(r, v, t, s.order(r), () if (spot := s.spot(r.func)) is None else spot.storage)
            )
            for r, v, t in zip(facts.rows, levels, together, strict=True)
        ]
        kinds = [self.kinds.nest(w, facts.accesses[r]) for w, r in zip(where, facts.rows, strict=True)]
        hosts, demands, rounds = self._hosts(facts, levels, position)
        threads = dict(layout.members)
        columns = [threads[r.func].start if v == BLOCK else 0 for r, v in zip(facts.rows, levels, strict=True)]
        groups: list[tuple[int, AccessGroup, bool]] = []
        accesses, sources = [], []
        for k, stage in enumerate(facts.rows):
            touched = facts.accesses[stage]
            for group, store in [(g, False) for g in touched.loads] + [(g, True) for g in touched.stores]:
                itself = group.source == stage.func
                spot = s.spot(group.source)
                memory = OWN_MEMORY[levels[k] if itself else ROOT if spot is None else LEVELS[spot.level]]
                accesses.append(self.kinds.accesses_at(where[k], group, store, memory, placed=True))
                sources.append(first.get(group.source, -1))
                groups.append((k, group, store))
                if store and itself and spot is not None and spot.stored:
                    accesses.append(self.kinds.accesses_at(where[k], group, store, GLOBAL, placed=True))
                    sources.append(-1)
                    groups.append((k, group, store))
        calls = [[facts.accesses[r].calls.get(f, 0) for f in facts.inlined] for r in facts.rows]
        return KernelTables(
            nests=np.array(kinds, np.int64),
            hosts=np.array(hosts, np.int64),
            columns=np.array(columns, np.int64),
            points=np.array([c + layout.count - layout.root_serial.stop for c in columns], np.int64),
            width=2 * layout.count - layout.root_serial.stop,
            demands=np.array(demands, np.int64),
            rounds=np.array(rounds, np.int64),
            grid=self._grid(facts),
            groups_of=np.array(
                [p.aligned[0] if (p := s.spot(r.func)) and p.aligned else 0 for r in facts.rows], np.int64
            ),
            aligned=any(p.aligned is not None for p in s.spots),
            stored=np.array([int((p := s.spot(r.func)) is not None and p.stored) for r in facts.rows], np.int64),
            layouts=np.array(
                [self.demands.layout(p) if v == THREAD else 0 for p, v in zip(demands, levels, strict=True)]
            ),
            loops=max(
                (self.demands.loops_around(p) for p, v in zip(demands, levels, strict=True) if v == THREAD), default=0
            ),
            accesses=np.array(accesses, np.int64),
            readers=np.array([k for k, _, _ in groups], np.int64),
            sources=np.array(sources, np.int64),
            groups=tuple(groups),
            where=tuple(where),
            pairs=_pairs(facts, position, groups),
            buffers=self._buffers(facts, first),
            inlined=self._inlined(facts),
            calls=np.array(calls, np.int64).reshape(len(facts.rows), len(facts.inlined)),
        )

    def _hosts(
        self, facts: SketchAnalysis, levels: Sequence[int], position: Mapping[StageId, int]
    ) -> tuple[list[int], list[int], list[int]]:
        """Return the hosts of nests, what is needed of them, and how deep they are nested in threads."""
        s = facts.structure
        inside = frozenset(p.func for p in s.spots) | s.inlined
        in_threads = frozenset(p.func for p in s.spots if p.level is Level.THREAD) | s.inlined
        hosts = list(range(len(levels)))
        demands = [-1] * len(levels)
        rounds = [0] * len(levels)
        for k, stage in enumerate(facts.rows):  # hosts come before what they hold
            spot = s.spot(stage.func)
            if spot is None:
                continue
            if spot.level is Level.BLOCK:
                demands[k] = self.demands.block(s, spot.func, inside)
                continue
            host = hosts[k] = position[spot.host]
            rounds[k] = rounds[host] + 1
            level = (Level.ROOT, Level.BLOCK, Level.THREAD)[levels[host]]
            stages = s.stages if level is Level.ROOT else (spot.host,)
            around = demands[host] if level is Level.THREAD else -1
            dims = self.kinds.dims_of(levels[host], stages)
            demands[k] = self.demands.thread(spot, level, dims, in_threads, around)
        return hosts, demands, rounds

    def _grid(self, facts: SketchAnalysis) -> Ints:
        """Return which of the root's dimensions has the name of each of a nest's, ``int64[K, D]``."""
        found = np.full((len(facts.rows), self.kinds.dims), -1, np.int64)
        root = facts.dims[0]
        for k, dims in enumerate(facts.dims):
            found[k, : len(dims)] = [root.index(d) if d in root else -1 for d in dims]
        return found

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
            if name not in self._own:
                self._own[name] = _inlined_alone(self.bound.funcs[name])
            points, bytes_, trivial = self._own[name]
            branching = self.kinds.work.branching(self.bound.funcs[name].stages[0], facts.structure.inlined)
            rows.append((points, bytes_, branching, trivial))
        return np.array(rows, np.int64).reshape(len(rows), 4)


def _inlined_alone(func: BoundFunc) -> tuple[int, int, int]:
    """Return the points and bytes of an inlined Func, and whether it is next to nothing."""
    points = math.prod(func.extents)
    return points, points * sum(d.bytes_ for d in func.dtypes), int(_is_trivial(func))


def _is_trivial(func: BoundFunc) -> bool:
    """Whether a Func is so cheap that computing it again is never too much: a copy or a few operations."""
    stage = func.stages[0]
    few = operations(stage) + sum(stage.load_counts.values()) <= 1 + max(d.bytes_ for d in func.dtypes)
    return func.boundary is not None or few


def _pairs(
    facts: SketchAnalysis, position: Mapping[StageId, int], groups: Sequence[tuple[int, AccessGroup, bool]]
) -> Ints:
    """Return accesses with those that the same threads made before, without a barrier, of the same array."""
    loads: dict[int, list[int]] = {k: [] for k in range(len(facts.rows))}
    for a, (k, group, _) in enumerate(groups):
        if group.source != facts.rows[k].func:
            loads[k].append(a)
    found = []
    for k, stage in enumerate(facts.rows):
        before = [a for e in facts.earlier[stage] for a in loads[position[e]]]
        for a in loads[k]:
            comparable = [b for b in before if _comparable(groups[a][1], groups[b][1])]
            found += [(a, b, slot) for slot, b in enumerate(comparable)]
            before.append(a)
    return np.array(found, np.int64).reshape(len(found), 3)


def _comparable(a: AccessGroup, b: AccessGroup) -> bool:
    """Whether the elements of two groups can be told to be the same by their indices."""
    return (
        (a.source, a.component) == (b.source, b.component)
        and a.is_affine
        and b.is_affine
        and all(
            r is not None and s is not None and r.quotient == s.quotient for r, s in zip(a.rows, b.rows, strict=True)
        )
    )
