"""Mutations: schedules that differ from given ones in one kernel's tiles or use of shared memory."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field, replace

import numpy as np

from autosched.analysis.rewrites.cache_read import cached_source
from autosched.errors import AutoschedError
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.schedule.legality.validate import kernel_violations, violations
from autosched.schedule.types import Kernel, Level, Schedule
from autosched.search.beam.state import Params, PartialKernel
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.cache_reads import CacheReadSearch
from autosched.search.refine.retile import Retiler
from autosched.search.refine.tile_alignment import alignments, with_alignment
from autosched.search.space.option_enumeration import OptionEnumerator

SHARED = 0.3
"""Share of mutations of a kernel's use of shared memory, on devices with such memory."""

_TRIES = 8


@dataclass
class Mutator:
    """Mutates one kernel of a schedule.

    Args:
        evaluator: Evaluator of the pipeline and target.
        decider: Option enumerator of searches with the same evaluator; by default a new one.
    """

    evaluator: KernelEvaluator
    decider: InitVar[OptionEnumerator | None] = None
    _decider: OptionEnumerator = field(init=False)
    _cache_reads: CacheReadSearch = field(init=False)

    def __post_init__(self, decider: OptionEnumerator | None) -> None:
        self._decider = decider or OptionEnumerator(self.evaluator)
        self._cache_reads = CacheReadSearch(self.evaluator, self._decider, Retiler(self.evaluator, self._decider))

    def mutated(self, schedule: Schedule, rng: np.random.Generator) -> Schedule | None:
        """Return a legal schedule with one mutated kernel, or None if `_TRIES` mutations are illegal.

        Args:
            schedule: Any legal schedule of the pipeline.
            rng: Source of randomness.
        """
        bound, target = self.evaluator.bound, self.evaluator.target
        for _ in range(_TRIES):
            k = int(rng.integers(len(schedule.kernels)))
            kernel = self._mutated_kernel(schedule.kernels[k], rng)
            if kernel is None or kernel == schedule.kernels[k] or kernel_violations(bound, kernel, target):
                continue
            mutation = replace(schedule, kernels=(*schedule.kernels[:k], kernel, *schedule.kernels[k + 1 :]))
            if not violations(bound, mutation, target):
                return mutation
        return None

    def _mutated_kernel(self, kernel: Kernel, rng: np.random.Generator) -> Kernel | None:
        """Return a kernel that differs in one respect; fused producers keep their threads as far as regions allow."""
        try:
            sketch, params = describe_kernel(self.evaluator.bound, kernel)
            if sketch.lanes:
                return None  # tilings of warp reductions are not enumerated here
            sketch = self._decider.compute_locations.one(sketch)
            if self.evaluator.target.kind != "cpu" and rng.random() < SHARED:
                mutated = self._with_other_memory(sketch, params, rng)
            else:
                mutated = self._with_other_tiles(sketch, params, rng)
            return None if mutated is None else self._built(*mutated)
        except AutoschedError:  # a kernel outside of the search space
            return None

    def _with_other_tiles(
        self, sketch: KernelSketch, params: Params, rng: np.random.Generator
    ) -> tuple[KernelSketch, Params] | None:
        tilings = self._decider.tilings(sketch)
        if not tilings:
            return None
        root = self._decider.compute_locations.layout(sketch).root_serial.stop
        return sketch, (*tilings[int(rng.integers(len(tilings)))][:root], *params[root:])

    def _with_other_memory(
        self, sketch: KernelSketch, params: Params, rng: np.random.Generator
    ) -> tuple[KernelSketch, Params] | None:
        """Return a kernel with another tile alignment in shared memory, or with one cache read more or less."""
        blocks = [s.func for s in sketch.locations if s.level is Level.BLOCK]
        changes = [("align", func) for func in blocks]
        changes += [("drop", func) for func in blocks if cached_source(func) is not None]
        changes += [("copy", source) for source in self._cache_reads.sources(sketch)]
        if not changes:
            return None
        change, name = changes[int(rng.integers(len(changes)))]
        if change == "drop":
            rest = KernelSketch(sketch.stages, tuple(s for s in sketch.locations if s.func != name), sketch.inlined)
            return rest, self._decider.with_threads(PartialKernel(sketch, params, tiled=True), rest, name, ())
        variants = self._aligned(sketch, params, name)
        if change == "copy":
            variants = self._cache_reads.variants((sketch, params), name)
        return variants[int(rng.integers(len(variants)))] if variants else None

    def _aligned(self, sketch: KernelSketch, params: Params, func: str) -> list[tuple[KernelSketch, Params]]:
        """Return a kernel with each other useful alignment of a fused producer."""
        location = sketch.location(func)
        if location is None:
            return []
        others = {None, *alignments(self.evaluator.kernel_model(sketch), func)} - {location.aligned}
        ordered = sorted(others, key=repr)
        return [(self._decider.compute_locations.one(with_alignment(sketch, func, a)), params) for a in ordered]

    def _built(self, sketch: KernelSketch, params: Params) -> Kernel:
        """Return the kernel of a sketch; fused producers have at most as many threads as points."""
        model = self.evaluator.kernel_model(sketch)
        row = np.array([params], np.int64)
        extents = model.member_extents(row) if model.layout.members else {}
        for func, where in model.layout.members:
            row[:, where] = np.minimum(row[:, where], extents[func])
        return build_kernel(model, row[0])
