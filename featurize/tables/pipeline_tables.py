"""What all kernels of a pipeline share, and features of kernels by it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.accesses.access_cache import UniqueAccessCache
from autosched.featurize.accesses.accesses import AccessTable
from autosched.featurize.accesses.batch_accesses import BatchAccesses
from autosched.featurize.accesses.memory_traffic import Floats, MemoryTraffic, Warps, traffic
from autosched.featurize.assemble import FeatureAssembler
from autosched.featurize.instructions.arithmetic_work import WorkTable
from autosched.featurize.instructions.thread_loops import Loops
from autosched.featurize.regions.geometry import Geometry, geometry_of
from autosched.featurize.regions.nest_arrays import Bools, Ints, NestArrays
from autosched.featurize.regions.required_regions import RequiredRegions
from autosched.featurize.regions.storage import column_accessed, shared_bytes, shared_strides
from autosched.featurize.sketch.candidate_layout import CandidateLayout
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.featurize.sketch.sketch_analysis import SketchAnalysis
from autosched.featurize.tables.candidate_batch import Batch
from autosched.featurize.tables.descriptor_tables import ALWAYS, IF_SMALL, ROOT, THREAD, DescriptorTables
from autosched.featurize.tables.kernel_tables import KernelTableBuilder
from autosched.schedule.kernel import vector_access as rules
from autosched.schedule.policy import in_registers
from autosched.target import Target

if TYPE_CHECKING:
    from autosched.featurize.featurizer import SketchFeaturizer


@dataclass
class PipelineTables:
    """What is worked out once for all kernels of a bound pipeline; arguments are those of `Featurizer`."""

    bound: BoundPipeline
    target: Target
    amortised: bool = True
    every_warp: bool = False
    vectors: bool | None = None
    accesses: AccessTable = field(init=False)
    work: WorkTable = field(init=False)
    kinds: DescriptorTables = field(init=False)
    demands: RequiredRegions = field(init=False)
    planner: KernelTableBuilder = field(init=False)
    entries: UniqueAccessCache = field(init=False)
    _facts: dict[tuple[object, ...], SketchAnalysis] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.accesses = AccessTable(self.bound)
        self.work = WorkTable(self.bound)
        self.kinds = DescriptorTables(self.bound, self.work, by_form=self.amortised)
        self.demands = RequiredRegions(self.kinds, thorough=self.every_warp)
        self.planner = KernelTableBuilder(self.kinds, self.demands)
        joins = rules.VECTORS and self.target.kind != "cpu" if self.vectors is None else self.vectors
        self.entries = UniqueAccessCache(self.kinds, amortised=self.amortised, vectors=joins)

    def with_buffers_of(self, bound: BoundPipeline) -> PipelineTables:
        """Return the tables of a pipeline that differs in nothing but how many buffers are staged.

        Args:
            bound: The pipeline.
        """
        found = copy(self)
        found.bound = bound
        return found

    def facts(self, structure: KernelSketch) -> SketchAnalysis:
        """Return what follows from a structure; those that differ in what is not placed yet share it."""
        key = structure.stages, structure.spots, structure.inlined, structure.orders, structure.lanes
        found = self._facts.get(key)
        if found is None:
            placed = replace(structure, near=frozenset(), far=frozenset())
            found = self._facts[key] = SketchAnalysis(self.bound, placed, self.accesses)
        return found

    def evaluate(
        self, models: Sequence[SketchFeaturizer], params: Sequence[Ints], wanted: frozenset[str] | None = None
    ) -> BatchEvaluation:
        """Return the features of candidates of some structures, all at once.

        Args:
            models: The structures, without copies of sources or all with the same; their own featurizer is this one.
            params: ``int64[N, columns]``, candidates of each (see `autosched.featurize.sketch.sketch.columns`).
            wanted: Names of the features that must be there, others may be zero; all if left out.
        """
        return self.featurized(models, self.lay_out(models, params), wanted)

    def lay_out(self, models: Sequence[SketchFeaturizer], params: Sequence[Ints]) -> CandidateLayout:
        """Return what follows from tile sizes alone; see `evaluate`."""
        batch = Batch([m.plan for m in models], params, self.kinds.dims)
        geometry = geometry_of(batch, self.kinds, self.demands)
        nests = geometry.nests
        across = column_accessed(batch, [m.facts for m in models], nests)
        strides, elements = shared_strides(nests.kinds, nests.extents, across, bool(self.bound.register_blocked))
        shared = shared_bytes(batch, elements * self.bound.buffers)
        return CandidateLayout(tuple(range(len(models))), batch, geometry, strides, shared)

    def featurized(
        self, asked: Sequence[SketchFeaturizer], layout: CandidateLayout, wanted: frozenset[str] | None = None
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
        accesses = BatchAccesses(batch, self.kinds, self.demands, nests, layout.strides, rolled)
        cost = traffic(
            accesses, self.entries, geometry.block, geometry.blocks, warps, promoted, every_warp=self.every_warp
        )
        if shares and reduces.any():
            cost = cost.times(loops.again(accesses, reduces))
        thread_bytes = _thread_bytes(batch, nests, promoted)
        filler = FeatureAssembler(batch, geometry, accesses, cost, warps, self.target, loops, shares)
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

    models: tuple[SketchFeaturizer, ...]
    batch: Batch
    features: Floats
    geometry: Geometry
    shared_bytes: Ints
    thread_bytes: Ints
    accesses: BatchAccesses
    traffic: MemoryTraffic


def _promoted(nests: NestArrays) -> Bools:
    """Return whether a nest keeps its own Func's points in registers while it runs."""
    how = nests.kinds["promotion"]
    small = in_registers(nests.serial.prod(axis=1), nests.kinds["components"])
    return np.asarray((how == ALWAYS) | ((how == IF_SMALL) & small), bool)


def _thread_bytes(batch: Batch, nests: NestArrays, promoted: Bools) -> Ints:
    kinds = nests.kinds
    size = kinds["bytes"]
    inside = (kinds["level"] == THREAD) & (kinds["leading"] > 0)
    first = np.zeros(len(size), bool)
    first[batch.nests.start] = True
    accumulators = first & promoted & (kinds["level"] == ROOT)
    held = nests.extents.prod(axis=1) * inside + nests.serial.prod(axis=1) * accumulators
    return np.add.reduceat(held * size, batch.nests.start)
