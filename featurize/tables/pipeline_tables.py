"""Tables that all kernels of a pipeline share, the sketches that use them, and features of batches of candidates.

The three classes refer to one another: `PipelineTables` evaluates sketches, a `SketchFeaturizer` has the tables of its
pipeline, and a `BatchEvaluation` names the sketches of its candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.accesses.access_cache import UniqueAccessCache
from autosched.featurize.accesses.accesses import AccessTable, StageAccesses
from autosched.featurize.accesses.batch_accesses import BatchAccesses
from autosched.featurize.accesses.memory_traffic import Floats, MemoryTraffic, Warps, traffic
from autosched.featurize.assemble import FeatureAssembler
from autosched.featurize.instructions.arithmetic_work import WorkTable
from autosched.featurize.instructions.thread_loops import Loops
from autosched.featurize.kernel_views import KernelGeometry, StageAccess, accesses_by_stage, kernel_geometry
from autosched.featurize.regions.geometry import Geometry, geometry_of
from autosched.featurize.regions.grid import BlockGrid
from autosched.featurize.regions.nest_arrays import Bools, Ints, NestArrays
from autosched.featurize.regions.required_regions import RequiredRegions
from autosched.featurize.regions.storage import column_accessed, shared_bytes, shared_strides
from autosched.featurize.sketch.candidate_layout import CandidateLayout
from autosched.featurize.sketch.sketch import KernelSketch, columns
from autosched.featurize.sketch.sketch_analysis import SketchAnalysis
from autosched.featurize.tables.candidate_batch import Batch
from autosched.featurize.tables.descriptor_tables import ALWAYS, IF_SMALL, ROOT, THREAD, DescriptorTables
from autosched.featurize.tables.kernel_tables import KernelTableBuilder, KernelTables
from autosched.schedule.kernel import vector_access as rules
from autosched.schedule.policy import in_registers
from autosched.schedule.types import StageId
from autosched.target import Target


@dataclass
class PipelineTables:
    """Tables and caches of all kernels of a bound pipeline; arguments are those of `Featurizer`."""

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
        on_gpu = self.target.kind != "cpu"
        self.kinds = DescriptorTables(self.bound, self.work, by_form=self.amortised, interleaves=on_gpu)
        self.demands = RequiredRegions(self.kinds, thorough=self.every_warp)
        self.planner = KernelTableBuilder(self.kinds, self.demands)
        coalesces = rules.VECTORS and on_gpu if self.vectors is None else self.vectors
        self.entries = UniqueAccessCache(self.kinds, amortised=self.amortised, vectors=coalesces)

    def with_buffers_of(self, bound: BoundPipeline) -> PipelineTables:
        """Return the tables of a pipeline that differs only in the number of buffers of its cache reads.

        Args:
            bound: The pipeline.
        """
        tables = copy(self)
        tables.bound = bound
        return tables

    def facts(self, sketch: KernelSketch) -> SketchAnalysis:
        """Return the analysis of a sketch; sketches that differ only in Funcs not placed yet share it."""
        key = (
            sketch.stages, sketch.locations, sketch.inlined, sketch.orders, sketch.lanes, sketch.linear_threads,
            sketch.warps,
        )  # fmt: skip
        analysis = self._facts.get(key)
        if analysis is None:
            placed = replace(sketch, near=frozenset(), far=frozenset())
            analysis = self._facts[key] = SketchAnalysis(self.bound, placed, self.accesses)
        return analysis

    def evaluate(
        self, models: Sequence[SketchFeaturizer], params: Sequence[Ints], required: frozenset[str] | None = None
    ) -> BatchEvaluation:
        """Return the features of candidates of several sketches in one batch.

        Args:
            models: The sketches, all of these tables: without cache reads, or with the same ones.
            params: ``int64[N, columns]``, candidates of each (see `autosched.featurize.sketch.sketch.columns`).
            required: Names of required features; others may be zero. All if left out.
        """
        return self.featurized(models, self.lay_out(models, params), required)

    def lay_out(self, models: Sequence[SketchFeaturizer], params: Sequence[Ints]) -> CandidateLayout:
        """Return the regions, threads and shared memory of candidates; see `evaluate`."""
        batch = Batch([m.plan for m in models], params, self.kinds.dims)
        geometry = geometry_of(batch, self.kinds, self.demands)
        nests = geometry.nests
        by_columns = column_accessed(batch, [m.facts for m in models], nests)
        strides, elements = shared_strides(nests.kinds, nests.extents, by_columns, bool(self.bound.register_blocked))
        kept = nests.kinds["kept_steps"]
        is_window = np.asarray((nests.kinds["slides"] > 0).any(axis=1))
        elements = elements * np.where(kept > 0, kept, self.bound.buffers)
        if (nests.kinds["register_rows"] > 0).any():
            elements = np.where(nests.kinds["register_rows"] > 0, _window_elements(nests, elements), elements)
        shared = shared_bytes(batch, elements, is_window)
        return CandidateLayout(tuple(range(len(models))), batch, geometry, strides, shared)

    def featurized(
        self, models: Sequence[SketchFeaturizer], layout: CandidateLayout, required: frozenset[str] | None = None
    ) -> BatchEvaluation:
        """Return the features of laid-out candidates, or of a part of them.

        Args:
            models: The sketches given to `lay_out`.
            layout: The candidates.
            required: See `evaluate`.
        """
        chosen = [models[k] for k in layout.sketches]
        batch, geometry, shared = layout.batch, layout.geometry, layout.shared_bytes
        nests = geometry.nests
        promoted = _promoted(nests)
        warps = Warps.of(geometry.lanes, nests.active)
        shares = self.amortised and self.target.kind != "cpu"
        layouts = batch.nests.take([m.plan.layouts for m in chosen])
        reduces = self.demands.reduces(layouts, nests.loops.shape[1])
        loops = Loops.of(geometry, batch.hosts, reduces, self.demands.counts(layouts))
        rolled = loops.over_points(reduces, nests.kinds["terms"].shape[1]) & shares
        accesses = BatchAccesses(batch, self.kinds, self.demands, nests, layout.strides, rolled)
        cost = traffic(
            accesses, self.entries, geometry.lanes, geometry.blocks, warps, promoted, every_warp=self.every_warp
        )
        if shares and reduces.any():
            cost = cost.times(loops.again(accesses, reduces))
        thread_bytes = _thread_bytes(batch, nests, promoted)
        assembler = FeatureAssembler(batch, geometry, accesses, cost, warps, self.target, loops, shares)
        features = assembler.features(shared, thread_bytes, required)
        return BatchEvaluation(tuple(chosen), batch, features, geometry, shared, thread_bytes, accesses, cost)


@dataclass(frozen=True)
class Evaluation:
    """Features of one sketch's candidates, with the quantities that they follow from.

    Attributes:
        features: ``float64[N, rows, features]``, a row for each stage, then for each inlined Func.
        geometry: Regions and threads.
        shared_bytes: ``int64[N]``, shared memory of a block.
        thread_bytes: ``int64[N]``, registers of a thread for producers and accumulators, in bytes.
        traffic: Memory traffic of each stage's accesses.
    """

    features: Floats
    geometry: KernelGeometry
    shared_bytes: Ints
    thread_bytes: Ints
    traffic: dict[StageId, list[StageAccess]]


class SketchFeaturizer:
    """Featurizes the candidates of one sketch; analyses that do not depend on tile sizes are run once."""

    def __init__(self, tables: PipelineTables, sketch: KernelSketch) -> None:
        self.tables = tables  # not the Featurizer, which refers to this object: only Python's collector frees cycles
        self.bound = tables.bound
        self.sketch = sketch
        self.layout = columns(self.bound, sketch)
        self.facts = tables.facts(sketch)
        self._plan: KernelTables | None = None
        self._grid: BlockGrid | None = None

    @property
    def plan(self) -> KernelTables:
        """The sketch as arrays."""
        if self._plan is None:
            self._plan = self.tables.planner.plan(self.sketch, self.facts, self.layout)
        return self._plan

    @property
    def grid(self) -> BlockGrid:
        """The division of the root stages into blocks."""
        if self._grid is None:
            self._grid = BlockGrid(self.bound, self.sketch, self.layout)
        return self._grid

    @property
    def rows(self) -> tuple[StageId, ...]:
        """Stages with a row of features, in order; inlined Funcs follow."""
        return self.facts.rows

    @property
    def inlined(self) -> tuple[str, ...]:
        """Inlined Funcs, whose rows follow those of the stages."""
        return self.facts.inlined

    @property
    def overflow(self) -> bool:
        """Whether a stage evaluates inlined Funcs at more points than are enumerated."""
        return self.facts.overflow

    def accesses_of(self, stage: StageId) -> StageAccesses:
        """Return the accesses of one evaluation of a stage."""
        return self.facts.accesses[stage]

    def geometry(self, params: Ints) -> KernelGeometry:
        """Return the regions and threads of candidates ``int64[N, columns]``."""
        batch = Batch([self.plan], [params], self.tables.kinds.dims)
        return kernel_geometry(
            self.facts, self.plan, geometry_of(batch, self.tables.kinds, self.tables.demands), self.tables.demands
        )

    def member_extents(self, params: Ints) -> dict[str, Ints]:
        """Return the buffer of each block-level producer, ``int64[N, dims]``, from the root's columns alone."""
        return self.tables.demands.member_extents(self.sketch, self.grid.blocks(params)[0])

    def evaluate(self, params: Ints) -> Evaluation:
        """Return the features of candidates ``int64[N, columns]`` (see `columns`)."""
        e = self.tables.evaluate([self], [params])
        return Evaluation(
            e.features,
            kernel_geometry(self.facts, self.plan, e.geometry, self.tables.demands),
            e.shared_bytes,
            e.thread_bytes,
            accesses_by_stage(self.facts, self.plan, e.accesses, e.traffic),
        )


@dataclass(frozen=True)
class BatchEvaluation:
    """Features of candidates of several sketches, with the quantities that they follow from.

    Attributes:
        models: The sketches.
        batch: The candidates of each.
        features: ``float64[M, rows, features]``, a row for each stage, then for each inlined Func, then zeros.
        geometry: Regions and threads.
        shared_bytes: ``int64[M]``, shared memory of a block.
        thread_bytes: ``int64[M]``, registers of a thread for producers and accumulators, in bytes.
        accesses: Accesses of all stages.
        traffic: Memory traffic of these.
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
    """Whether a nest promotes its own Func's points to registers, ``bool[R]``."""
    promotion = nests.kinds["promotion"]
    small = in_registers(nests.serial.prod(axis=1), nests.kinds["components"])
    return np.asarray((promotion == ALWAYS) | ((promotion == IF_SMALL) & small), bool)


def _window_elements(nests: NestArrays, elements: Ints) -> Ints:
    """Return the elements in shared memory of private windows, given those of the rows of a step, ``int64[R]``."""
    rows = np.where(nests.kinds["slides"] > 0, nests.extents, 1).prod(axis=1)
    return np.asarray(elements // rows * nests.kinds["shared_rows"])


def _thread_bytes(batch: Batch, nests: NestArrays, promoted: Bools) -> Ints:
    """Return the bytes of thread-level producers and accumulators in a thread's registers, ``int64[M]``."""
    kinds = nests.kinds
    size = kinds["bytes"]
    inside = (kinds["level"] == THREAD) & (kinds["leading"] > 0)
    first = np.zeros(len(size), bool)
    first[batch.nests.start] = True
    accumulators = first & promoted & (kinds["level"] == ROOT)
    in_thread = accumulators | ((kinds["private"] > 0) & (kinds["leading"] > 0))
    serial = nests.serial.prod(axis=1)
    if (kinds["register_rows"] > 0).any():
        rows = np.where(nests.kinds["slides"] > 0, nests.serial, 1).prod(axis=1)
        serial = np.where(kinds["register_rows"] > 0, serial // rows * kinds["register_rows"], serial)
    points = nests.extents.prod(axis=1) * inside + serial * in_thread
    return np.add.reduceat(points * size, batch.nests.start)
