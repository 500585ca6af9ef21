"""Features of all stages of one kernel structure, for arrays of tile sizes.

What is taken as exact and what is not: counts of sectors, wavefronts, requests and lanes are those of the middle block,
exactly, where every index is affine (with at most one floor division), a THREAD Member moves evenly with the threads
and loops around it, and the block runs the code of the kernel's interior. The approximations are these.

* Indices that are not affine (data-dependent ones, products, remainders): see
  `autosched.featurize.accesses.memory_traffic`.
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

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.accesses.accesses import StageAccesses
from autosched.featurize.accesses.memory_traffic import Floats
from autosched.featurize.kernel_views import KernelGeometry, StageAccess, accesses_by_stage, kernel_geometry
from autosched.featurize.regions.geometry import geometry_of
from autosched.featurize.regions.grid import BlockGrid
from autosched.featurize.regions.nest_arrays import Ints
from autosched.featurize.sketch.sketch import KernelSketch, columns, rewritten_for
from autosched.featurize.tables.candidate_batch import Batch
from autosched.featurize.tables.kernel_tables import KernelTables
from autosched.featurize.tables.pipeline_tables import BatchEvaluation, PipelineTables
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
            `autosched.schedule.kernel.vector_access.VECTORS` says when left out, on CPUs not, whose compilers make
            vectors of lanes.

    Attributes:
        tables: What all kernels share.
    """

    bound: BoundPipeline
    target: Target
    amortised: bool = True
    every_warp: bool = False
    vectors: bool | None = None
    tables: PipelineTables = field(init=False)
    _models: dict[KernelSketch, SketchFeaturizer] = field(init=False, default_factory=dict)
    _views: dict[int, Featurizer] = field(init=False, default_factory=dict)
    _like: Featurizer | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.tables = PipelineTables(self.bound, self.target, self.amortised, self.every_warp, self.vectors)

    def model(self, structure: KernelSketch) -> SketchFeaturizer:
        """Return the model of a structure, built once; that of one with copies has tables of its own."""
        found = self._models.get(structure)
        if found is None:
            found = self._models[structure] = SketchFeaturizer(self._for(structure).tables, structure)
        return found

    def _for(self, structure: KernelSketch) -> Featurizer:
        """Return the featurizer of the pipeline with the copies of sources and the lanes that a kernel has."""
        bound = rewritten_for(self.bound, structure)
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
        found.bound, found.tables = bound, self.tables.with_buffers_of(bound)
        found._like, found._models, found._views = self, {}, {}
        return found

    def evaluate(
        self, models: Sequence[SketchFeaturizer], params: Sequence[Ints], wanted: frozenset[str] | None = None
    ) -> BatchEvaluation:
        """Return the features of candidates of some structures, all at once; see `PipelineTables.evaluate`."""
        return self.tables.evaluate(models, params, wanted)


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


class SketchFeaturizer:
    """Everything about a structure that does not depend on tile sizes, and how features follow from these."""

    def __init__(self, tables: PipelineTables, structure: KernelSketch) -> None:
        self.tables = tables  # not the featurizer, which knows this model: cycles wait for Python's collector
        self.bound = tables.bound
        self.structure = structure
        self.layout = columns(self.bound, structure)
        self.facts = tables.facts(structure)
        self._plan: KernelTables | None = None
        self._grid: BlockGrid | None = None

    @property
    def plan(self) -> KernelTables:
        """The structure as arrays."""
        if self._plan is None:
            self._plan = self.tables.planner.plan(self.structure, self.facts, self.layout)
        return self._plan

    @property
    def grid(self) -> BlockGrid:
        """How blocks divide the root stages."""
        if self._grid is None:
            self._grid = BlockGrid(self.bound, self.structure, self.layout)
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
        batch = Batch([self.plan], [params], self.tables.kinds.dims)
        return kernel_geometry(
            self.facts, self.plan, geometry_of(batch, self.tables.kinds, self.tables.demands), self.tables.demands
        )

    def member_extents(self, params: Ints) -> dict[str, Ints]:
        """Return the buffer of each BLOCK Member, ``int64[N, dims]``; only the root's columns are read."""
        return self.tables.demands.member_extents(self.structure, self.grid.blocks(params)[0])

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
