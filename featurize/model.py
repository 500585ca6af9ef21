"""Features of all stages of one kernel structure, for arrays of tile sizes.

What is taken as exact and what is not: counts of sectors, wavefronts, requests and lanes are those of the middle block,
exactly, where every index is affine (with at most one floor division), a THREAD Member moves evenly with the threads
and loops around it, and the block runs the code of the kernel's interior. The approximations are these.

* Indices that are not affine (data-dependent ones, products, remainders): see `autosched.featurize.memory`.
* A THREAD Member that is needed at quotients of its host's indices (``f[x // 2]``) is taken to move evenly.
* Blocks at the border of the domain run code with clamps and guards, and may be partial: each counts as the middle one.
  Where a grid has only few blocks, the middle one is such a block itself.
* With `Featurizer.every_warp` off the first warp stands for all others but the tail warp, as in the paper.
* With `Featurizer.amortised` on, as in searches, a thread is taken to keep in registers what nests without a barrier
  between them have loaded, if its loops are unrolled; reductions of more than 32 steps are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from autosched.analysis.bound import BoundPipeline
from autosched.featurize import schema
from autosched.featurize.accesses import AccessGroup, AccessTable, StageAccesses
from autosched.featurize.facts import OWN_MEMORY, StructureFacts
from autosched.featurize.fill import Filler
from autosched.featurize.geometry import Geometry, GeometryBuilder
from autosched.featurize.lanes import warps_of_block
from autosched.featurize.memory import Access, Floats, Reader, Warps, traffic
from autosched.featurize.nests import Bools, Ints, NestShape
from autosched.featurize.storage import StorageOf, first_fit
from autosched.featurize.structure import Structure, columns
from autosched.featurize.tables import Counting, OffsetTable
from autosched.featurize.work import WorkTable
from autosched.schedule.derived import SHARED_ALIGN, is_promoted
from autosched.schedule.plan import owns_tile
from autosched.schedule.types import Level, StageId
from autosched.target import Target


@dataclass
class Featurizer:
    """Featurizes the kernels of one bound pipeline for one target.

    Args:
        bound: The pipeline.
        target: Device limits.
        amortised: Whether what the unrolled points of a thread share is accessed once, as compiled code does, or
            counted as written, as the emulator executes it.
        every_warp: Whether the transactions of each warp are counted, instead of the first one's for all but a tail
            warp; dear, and for tests.
    """

    bound: BoundPipeline
    target: Target
    amortised: bool = True
    every_warp: bool = False
    accesses: AccessTable = field(init=False)
    work: WorkTable = field(init=False)
    _models: dict[Structure, KernelModel] = field(init=False, default_factory=dict)
    _tables: dict[tuple[object, ...], OffsetTable] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.accesses = AccessTable(self.bound)
        self.work = WorkTable(self.bound)

    def model(self, structure: Structure) -> KernelModel:
        """Return the model of a structure, built once."""
        if structure not in self._models:
            self._models[structure] = KernelModel(self, structure)
        return self._models[structure]

    def table(
        self, group: AccessGroup, nest: StageId, dims: Sequence[str], reductions: Sequence[tuple[str, int, int]]
    ) -> OffsetTable:
        """Return the constants of a group of accesses; kernels with the same stage share them."""
        key = id(group), tuple(dims), tuple(reductions)  # groups live as long as the table of accesses does
        if key not in self._tables:
            self._tables[key] = OffsetTable(group, nest, tuple(dims), tuple(reductions))
        return self._tables[key]


@dataclass(frozen=True)
class Evaluation:
    """What is known of a structure's candidates.

    Attributes:
        features: ``float64[N, rows, features]``, a row for each stage, then for each inlined Func.
        geometry: Regions and threads.
        shared_bytes: ``int64[N]``, shared memory of a block.
        thread_bytes: ``int64[N]``, registers of a thread that hold Members and accumulators, in bytes.
        traffic: What each stage's accesses cost.
    """

    features: Floats
    geometry: Geometry
    shared_bytes: Ints
    thread_bytes: Ints
    traffic: Mapping[StageId, tuple[Access, ...]]


class KernelModel:
    """Everything about a structure that does not depend on tile sizes, and how features follow from these."""

    def __init__(self, featurizer: Featurizer, structure: Structure) -> None:
        self.f = featurizer
        self.bound = featurizer.bound
        self.structure = structure
        self.layout = columns(self.bound, structure)
        self.geometry = GeometryBuilder(self.bound, structure, self.layout, thorough=featurizer.every_warp)
        self.facts = StructureFacts(self.bound, structure, featurizer.accesses)
        self._operations = {
            s: featurizer.work.operations(self.bound.stage(s.func, s.number), a.calls)
            for s, a in self.facts.accesses.items()
        }

    @property
    def rows(self) -> tuple[StageId, ...]:
        """Stages that have a row of features, in order; inlined Funcs follow."""
        return self.facts.rows

    @property
    def inlined(self) -> tuple[str, ...]:
        """Inlined Funcs, whose rows follow those of the stages."""
        return self.facts.inlined

    @property
    def overflow(self) -> bool:
        """Whether a stage evaluates inlined Funcs at too many points to be looked at."""
        return any(a.overflow for a in self.facts.accesses.values())

    def accesses_of(self, stage: StageId) -> StageAccesses:
        """Return what one evaluation of a stage touches."""
        return self.facts.accesses[stage]

    def evaluate(self, params: Ints) -> Evaluation:
        """Return the features of candidates ``int64[N, columns]`` (see `columns`)."""
        geometry = self.geometry.build(params)
        n = len(params)
        storage = StorageOf(self.facts, geometry)
        sizes = [(size, span) for name, span in self.facts.lifetimes.items() for size in storage.bytes_of(name)]
        shared = np.zeros(n, np.int64)
        if sizes:
            shared = first_fit([s for s, _ in sizes], [span for _, span in sizes], SHARED_ALIGN)
        features = np.zeros((n, len(self.rows) + len(self.inlined), schema.COUNT))
        fill = Filler(self.facts, geometry, self.geometry.sizes, self.f.target, self.f.work, features)
        costs: dict[StageId, tuple[Access, ...]] = {}
        thread_bytes = self._thread_bytes(geometry, n)
        by_id = {nest.id: k for k, nest in enumerate(geometry.nests)}
        for row, stage in enumerate(self.rows):
            k = by_id[stage]
            nest, active = geometry.nests[k], geometry.active[k]
            warps = _warps(geometry.block, active)
            costs[stage] = self._stage_traffic(nest, geometry, storage, warps, active)
            fill.stage(row, nest, active, warps, costs[stage], self._operations[stage])
        fill.kernel(shared, thread_bytes)
        fill.inlined()
        return Evaluation(features, geometry, shared, thread_bytes, costs)

    def _thread_bytes(self, geometry: Geometry, n: int) -> Ints:
        total = np.zeros(n, np.int64)
        for spot in self.structure.spots:
            if spot.level is Level.THREAD:
                size = sum(d.bytes_ for d in self.bound.funcs[spot.func].dtypes)
                total += geometry.extents[spot.func].prod(axis=1) * size
        root = geometry.nests[0]
        size = sum(d.bytes_ for d in self.bound.funcs[self.structure.func].dtypes)
        return total + np.where(self._promoted(root), root.serial.prod(axis=1) * size, 0)

    def _promoted(self, nest: NestShape) -> Bools:
        """Return whether a nest keeps its own Func's points in registers while it runs."""
        func = self.bound.funcs[nest.stage.func]
        if nest.level is Level.THREAD:
            return np.ones(len(nest.times), bool)
        stages = [s for s in func.stages if s.values and not s.is_empty]
        if nest.level is Level.ROOT:
            stages = [self.bound.stage(s.func, s.number) for s in self.structure.stages]
        if not all(owns_tile(func, s) for s in stages) or not (len(stages) > 1 or stages[0].is_update):
            return np.zeros(len(nest.times), bool)
        return np.asarray(is_promoted(nest.serial.prod(axis=1), len(func.dtypes)), bool)

    def _stage_traffic(
        self, nest: NestShape, geometry: Geometry, storage: StorageOf, warps: Warps, active: Ints
    ) -> tuple[Access, ...]:
        found = []
        stage = nest.id
        access = self.facts.accesses[stage]
        promoted = self._promoted(nest)
        before = [self._reader(g, geometry.nest(s)) for s in self.facts.earlier[stage] for g in self._fixed_loads(s)]
        for group, store in [(g, False) for g in access.loads] + [(g, True) for g in access.stores]:
            own = group.source == stage.func
            memory, placed = (OWN_MEMORY[nest.level], True) if own else self.facts.memory_of(stage, group.source)
            where = storage.of(group.source, group.component, memory, placed)
            again = None if not own else self._repeats(nest, promoted, store)
            how = Counting.EVERY if own else Counting.DISTINCT if self.f.amortised else Counting.WRITTEN
            reader = self._reader(group, nest, with_reductions=again is None)
            cost = traffic(
                reader, [] if own else before, where, geometry.block, active, warps, how, every_warp=self.f.every_warp
            )
            found.append(Access(group, store, memory, cost if again is None else cost.scaled(again)))
            if not own:
                before.append(reader)
        return tuple(found)

    def _fixed_loads(self, stage: StageId) -> list[AccessGroup]:
        """Return what a stage loads of other Funcs, which it cannot write itself."""
        return [g for g in self.facts.accesses[stage].loads if g.source != stage.func]

    def _repeats(self, nest: NestShape, promoted: Bools, store: bool) -> Ints | None:
        """Return how often a thread goes to memory for each of its own points; None if reductions move the address.

        Accumulators go to memory once, after the last stage, and are read only if the first one does not set them.
        """
        func = self.bound.funcs[nest.stage.func]
        if not owns_tile(func, nest.stage):
            return None
        own = tuple(self.facts.stages_of(func.name))
        stages = self.structure.stages if nest.level is Level.ROOT else own
        touched = nest.id == (stages[-1] if store else stages[0])
        return np.where(promoted, int(touched), nest.reduction_points)

    def _reader(self, group: AccessGroup, nest: NestShape, *, with_reductions: bool = True) -> Reader:
        loops = {d.name: d for d in nest.stage.loops}
        reductions = [(d, loops[d].lo, loops[d].hi) for d in nest.reductions if loops[d].reduction]
        return Reader(self.f.table(group, nest.id, nest.dims, reductions if with_reductions else []), nest)


def _warps(block: Ints, active: Ints) -> Warps:
    counted = warps_of_block(np.concatenate([block, active], axis=1))
    tail = counted[:, 3]
    return Warps(counted[:, 0] - tail, tail, counted[:, 2], counted[:, 1])
