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

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace

import numpy as np

from autosched.analysis.bound import BoundPipeline
from autosched.featurize.accesses import AccessTable, StageAccesses
from autosched.featurize.batch import Batch
from autosched.featurize.demand import Demands
from autosched.featurize.entries import Accesses
from autosched.featurize.facts import StructureFacts
from autosched.featurize.fill import Filler
from autosched.featurize.geometry import Geometry, geometry_of
from autosched.featurize.grid import Grid
from autosched.featurize.kinds import ALWAYS, IF_SMALL, ROOT, THREAD, Kinds
from autosched.featurize.layout import Layout
from autosched.featurize.loops import Loops
from autosched.featurize.memory import Floats, Traffic, Warps, traffic
from autosched.featurize.plans import KernelPlan, Planner
from autosched.featurize.pool import EntryPool
from autosched.featurize.rows import Bools, Ints, NestRows
from autosched.featurize.storage import shared_bytes, shared_strides, walked_across
from autosched.featurize.structure import Structure, columns, viewed
from autosched.featurize.views import KernelGeometry, StageAccess, accesses_by_stage, kernel_geometry
from autosched.featurize.work import WorkTable
from autosched.schedule import vectors as rules
from autosched.schedule.derived import is_promoted
from autosched.schedule.types import StageId
from autosched.target import Target

MAX_BATCH = 1024
"""Candidates that are worked out together; more would not stay in the processor's caches."""


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
        vectors: Whether accesses to neighbouring elements are joined, where they are amortised; on GPUs as
            `autosched.schedule.vectors.VECTORS` says when left out, on CPUs not, whose compilers make vectors of lanes.
    """

    bound: BoundPipeline
    target: Target
    amortised: bool = True
    every_warp: bool = False
    vectors: bool | None = None
    accesses: AccessTable = field(init=False)
    work: WorkTable = field(init=False)
    kinds: Kinds = field(init=False)
    demands: Demands = field(init=False)
    planner: Planner = field(init=False)
    entries: EntryPool = field(init=False)
    _models: dict[Structure, KernelModel] = field(init=False, default_factory=dict)
    _facts: dict[tuple[object, ...], StructureFacts] = field(init=False, default_factory=dict)
    _views: dict[int, Featurizer] = field(init=False, default_factory=dict)
    _like: Featurizer | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.accesses = AccessTable(self.bound)
        self.work = WorkTable(self.bound)
        self.kinds = Kinds(self.bound, self.work, by_form=self.amortised)
        self.demands = Demands(self.kinds, thorough=self.every_warp)
        self.planner = Planner(self.kinds, self.demands)
        joins = rules.VECTORS and self.target.kind != "cpu" if self.vectors is None else self.vectors
        self.entries = EntryPool(self.kinds, amortised=self.amortised, vectors=joins)

    def model(self, structure: Structure) -> KernelModel:
        """Return the model of a structure, built once; that of one with copies has a featurizer of its own."""
        found = self._models.get(structure)
        if found is None:
            found = self._models[structure] = KernelModel(self._for(structure), structure)
        return found

    def _for(self, structure: Structure) -> Featurizer:
        """Return the featurizer of the pipeline with the copies of sources and the lanes that a kernel has."""
        bound = viewed(self.bound, structure)
        if bound is self.bound:
            return self
        if id(bound) not in self._views:
            like = self._like and self._like._for(structure)
            self._views[id(bound)] = like.with_buffers_of(bound) if like else replace(self, bound=bound)
        return self._views[id(bound)]

    def with_buffers_of(self, bound: BoundPipeline) -> Featurizer:
        """Return the featurizer of a pipeline that differs in nothing but how many buffers are staged.

        Both know what the other has worked out.

        Args:
            bound: The pipeline.
        """
        found = copy(self)
        found.bound, found._like, found._models, found._views = bound, self, {}, {}
        return found

    def facts(self, structure: Structure) -> StructureFacts:
        """Return what follows from a structure; those that differ in what is not placed yet share it."""
        key = structure.stages, structure.spots, structure.inlined, structure.orders, structure.lanes
        found = self._facts.get(key)
        if found is None:
            placed = replace(structure, near=frozenset(), far=frozenset())
            found = self._facts[key] = StructureFacts(self.bound, placed, self.accesses)
        return found

    def evaluate(
        self, models: Sequence[KernelModel], params: Sequence[Ints], wanted: frozenset[str] | None = None
    ) -> BatchEvaluation:
        """Return the features of candidates of some structures, all at once.

        Args:
            models: The structures, without copies of sources or all with the same; their own featurizer is this one.
            params: ``int64[N, columns]``, candidates of each (see `columns`).
            wanted: Names of the features that must be there, others may be zero; all if left out.
        """
        return self.featurized(models, self.lay_out(models, params), wanted)

    def lay_out(self, models: Sequence[KernelModel], params: Sequence[Ints]) -> Layout:
        """Return what follows from tile sizes alone; see `evaluate`."""
        batch = Batch([m.plan for m in models], params, self.kinds.dims)
        geometry = geometry_of(batch, self.kinds, self.demands)
        nests = geometry.nests
        across = walked_across(batch, [m.facts for m in models], nests)
        strides, elements = shared_strides(nests.kinds, nests.extents, across, bool(self.bound.held))
        shared = shared_bytes(batch, elements * self.bound.buffers)
        return Layout(tuple(range(len(models))), batch, geometry, strides, shared)

    def featurized(
        self, asked: Sequence[KernelModel], layout: Layout, wanted: frozenset[str] | None = None
    ) -> BatchEvaluation:
        """Return the features of candidates that are laid out, or of some of these; see `evaluate`."""
        models = [asked[k] for k in layout.structures]
        batch, geometry, shared = layout.batch, layout.geometry, layout.shared_bytes
        nests = geometry.nests
        promoted = _promoted(nests)
        candidate = batch.nests.candidate
        warps = Warps.of(geometry.block[candidate], nests.active)
        shares = self.amortised and self.target.kind != "cpu"
        layouts = batch.nests.take([m.plan.layouts for m in models])
        reduces = self.demands.reduces(layouts, nests.loops.shape[1])
        loops = Loops.of(geometry, batch.hosts, reduces, self.demands.counts(layouts))
        rolled = loops.over_points(reduces, nests.kinds["terms"].shape[1]) & shares
        accesses = Accesses(batch, self.kinds, self.demands, nests, layout.strides, rolled)
        cost = traffic(
            accesses, self.entries, geometry.block, geometry.blocks, warps, promoted, every_warp=self.every_warp
        )
        if shares and reduces.any():
            cost = cost.times(loops.again(accesses, reduces))
        thread_bytes = _thread_bytes(batch, nests, promoted)
        filler = Filler(batch, geometry, accesses, cost, warps, self.target, loops, shares)
        features = filler.features(shared, thread_bytes, wanted)
        return BatchEvaluation(tuple(models), batch, features, geometry, shared, thread_bytes, accesses, cost)


@dataclass(frozen=True)
class BatchEvaluation:
    """What is known of candidates of several structures.

    Attributes:
        models: The structures.
        batch: Which candidates are whose.
        features: ``float64[M, rows, features]``, a row for each stage, then for each inlined Func, then zeros.
        geometry: Regions and threads.
        shared_bytes: ``int64[M]``, shared memory of a block.
        thread_bytes: ``int64[M]``, registers of a thread that hold Members and accumulators, in bytes.
        accesses: What all stages access.
        traffic: What that costs.
    """

    models: tuple[KernelModel, ...]
    batch: Batch
    features: Floats
    geometry: Geometry
    shared_bytes: Ints
    thread_bytes: Ints
    accesses: Accesses
    traffic: Traffic


@dataclass(frozen=True)
class Evaluation:
    """What is known of one structure's candidates.

    Attributes:
        features: ``float64[N, rows, features]``, a row for each stage, then for each inlined Func.
        geometry: Regions and threads.
        shared_bytes: ``int64[N]``, shared memory of a block.
        thread_bytes: ``int64[N]``, registers of a thread that hold Members and accumulators, in bytes.
        traffic: What each stage's accesses cost.
    """

    features: Floats
    geometry: KernelGeometry
    shared_bytes: Ints
    thread_bytes: Ints
    traffic: dict[StageId, list[StageAccess]]


class KernelModel:
    """Everything about a structure that does not depend on tile sizes, and how features follow from these."""

    def __init__(self, featurizer: Featurizer, structure: Structure) -> None:
        self.f = featurizer
        self.bound = featurizer.bound
        self.structure = structure
        self.layout = columns(self.bound, structure)
        self.facts = featurizer.facts(structure)
        self._plan: KernelPlan | None = None
        self._grid: Grid | None = None

    @property
    def plan(self) -> KernelPlan:
        """The structure as arrays."""
        if self._plan is None:
            self._plan = self.f.planner.plan(self.structure, self.facts, self.layout)
        return self._plan

    @property
    def grid(self) -> Grid:
        """How blocks divide the root stages."""
        if self._grid is None:
            self._grid = Grid(self.bound, self.structure, self.layout)
        return self._grid

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
        return self.facts.overflow

    def accesses_of(self, stage: StageId) -> StageAccesses:
        """Return what one evaluation of a stage touches."""
        return self.facts.accesses[stage]

    def geometry(self, params: Ints) -> KernelGeometry:
        """Return the regions and threads of candidates ``int64[N, columns]``."""
        batch = Batch([self.plan], [params], self.f.kinds.dims)
        return kernel_geometry(self.facts, self.plan, geometry_of(batch, self.f.kinds, self.f.demands), self.f.demands)

    def member_extents(self, params: Ints) -> dict[str, Ints]:
        """Return the buffer of each BLOCK Member, ``int64[N, dims]``; only the root's columns are read."""
        return self.f.demands.member_extents(self.structure, self.grid.blocks(params)[0])

    def evaluate(self, params: Ints) -> Evaluation:
        """Return the features of candidates ``int64[N, columns]`` (see `columns`)."""
        e = self.f.evaluate([self], [params])
        return Evaluation(
            e.features,
            kernel_geometry(self.facts, self.plan, e.geometry, self.f.demands),
            e.shared_bytes,
            e.thread_bytes,
            accesses_by_stage(self.facts, self.plan, e.accesses, e.traffic),
        )


def _promoted(nests: NestRows) -> Bools:
    """Return whether a nest keeps its own Func's points in registers while it runs."""
    how = nests.kinds["promotion"]
    small = is_promoted(nests.serial.prod(axis=1), nests.kinds["components"])
    return np.asarray((how == ALWAYS) | ((how == IF_SMALL) & small), bool)


def _thread_bytes(batch: Batch, nests: NestRows, promoted: Bools) -> Ints:
    kinds = nests.kinds
    size = kinds["bytes"]
    inside = (kinds["level"] == THREAD) & (kinds["leading"] > 0)
    first = np.zeros(len(size), bool)
    first[batch.nests.start] = True
    accumulators = first & promoted & (kinds["level"] == ROOT)
    held = nests.extents.prod(axis=1) * inside + nests.serial.prod(axis=1) * accumulators
    return np.add.reduceat(held * size, batch.nests.start)
