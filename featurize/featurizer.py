"""Features of kernel sketches for arrays of tile sizes.

Counts of sectors, wavefronts, requests and lanes are exact for the middle block under three conditions: every index is
affine with at most one floor division, thread-level producers move linearly with the threads and loops that enclose
them, and the block runs the kernel's interior code. The approximations are:

* Indices that are not affine (data-dependent ones, products, remainders): see
  `autosched.featurize.accesses.memory_traffic`.
* A thread-level producer that is required at quotients of its host's indices (``f[x // 2]``) is assumed to move
  linearly.
* Boundary blocks run code with clamps and guards, and may be partial. Each counts as the middle block. In a grid of few
  blocks, the middle block is itself at the boundary.
* Without `Featurizer.every_warp`, the first warp stands for all but the tail warp, as in the paper.
* With `Featurizer.amortised`, as in searches, a thread keeps loaded values in registers across nests without a barrier
  between them, if its loops are unrolled. Reductions of more than 32 steps are not unrolled.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.regions.nest_arrays import Ints
from autosched.featurize.sketch.sketch import KernelSketch, rewritten_for
from autosched.featurize.tables.pipeline_tables import BatchEvaluation, Evaluation, PipelineTables, SketchFeaturizer
from autosched.target import Target

__all__ = ["MAX_BATCH", "Evaluation", "Featurizer", "SketchFeaturizer"]

MAX_BATCH = 1024
"""Candidates of one batch; the arrays of larger ones exceed the processor's caches."""


@dataclass
class Featurizer:
    """Featurizes the kernels of one bound pipeline for one target.

    Args:
        bound: The pipeline.
        target: Device limits.
        amortised: Whether accesses that the unrolled points of a thread share count once, as in compiled code, or at
            each point, as the emulator executes them.
        every_warp: Whether the transactions of each warp are counted, instead of the first one's for all but a tail
            warp; slow, and for tests.
        vectors: Whether amortised accesses to neighbouring elements are coalesced to vector accesses. By default
            `autosched.schedule.kernel.vector_access.VECTORS` on GPUs, and False on CPUs, whose compilers vectorise
            lanes.

    Attributes:
        tables: Tables shared by all kernels.
    """

    bound: BoundPipeline
    target: Target
    amortised: bool = True
    every_warp: bool = False
    vectors: bool | None = None
    tables: PipelineTables = field(init=False)
    _models: dict[KernelSketch, SketchFeaturizer] = field(init=False, default_factory=dict)
    _rewrites: dict[int, Featurizer] = field(init=False, default_factory=dict)
    _template: Featurizer | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.tables = PipelineTables(self.bound, self.target, self.amortised, self.every_warp, self.vectors)

    def model(self, sketch: KernelSketch) -> SketchFeaturizer:
        """Return the featurizer of a sketch, built once; a sketch with cache reads has tables of its own."""
        model = self._models.get(sketch)
        if model is None:
            model = self._models[sketch] = SketchFeaturizer(self._for(sketch).tables, sketch)
        return model

    def _for(self, sketch: KernelSketch) -> Featurizer:
        """Return the featurizer of the pipeline rewritten with a sketch's cache reads and lane loops."""
        bound = rewritten_for(self.bound, sketch)
        if bound is self.bound:
            return self
        if id(bound) not in self._rewrites:
            template = self._template and self._template._for(sketch)
            self._rewrites[id(bound)] = template.with_buffers_of(bound) if template else replace(self, bound=bound)
        return self._rewrites[id(bound)]

    def with_buffers_of(self, bound: BoundPipeline) -> Featurizer:
        """Return the featurizer of a pipeline that differs only in the number of buffers of its cache reads.

        Both share all caches.

        Args:
            bound: The pipeline.
        """
        featurizer = copy(self)
        featurizer.bound, featurizer.tables = bound, self.tables.with_buffers_of(bound)
        featurizer._template, featurizer._models, featurizer._rewrites = self, {}, {}
        return featurizer

    def evaluate(
        self, models: Sequence[SketchFeaturizer], params: Sequence[Ints], required: frozenset[str] | None = None
    ) -> BatchEvaluation:
        """Return the features of candidates of several sketches in one batch; see `PipelineTables.evaluate`."""
        return self.tables.evaluate(models, params, required)
