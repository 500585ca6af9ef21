"""Mutations: schedules that differ in one kernel's tiles, use of shared memory, steps, warps or resident blocks."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field, replace

import numpy as np

from autosched.analysis.rewrites.cache_read import cached_source, insert_cache_reads
from autosched.errors import AutoschedError
from autosched.featurize.scaling.hybrid_scaling import without_hybrid_tiles
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.schedule.kernel.warp_tiles import merge_warp_loops
from autosched.schedule.legality.validate import kernel_violations, violations
from autosched.schedule.sampling.random_hybrid_tiles import random_hybrid_tiles
from autosched.schedule.sampling.random_warp_tiles import random_warp_tiles
from autosched.schedule.types import Kernel, Level, Schedule
from autosched.search.beam.state import Params, PartialKernel
from autosched.search.datasets.mainloop_mutations import MainloopMutator
from autosched.search.datasets.sliding_window_mutations import SlidingWindowMutator
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.cache_reads import CacheReadSearch
from autosched.search.refine.cyclic_distribution import cyclic_variants
from autosched.search.refine.retile import Retiler
from autosched.search.refine.tile_alignment import alignments, with_alignment
from autosched.search.space.option_enumeration import OptionEnumerator

SHARED = 0.3
"""Share of mutations of a kernel's use of shared memory, on devices with such memory."""

ADDED_STEPS = 0.25
"""Share of mutations of a kernel without steps that give it a mainloop or a sliding window, where steps are mutated."""
RESIDENT_BLOCKS = 0.05
"""Share of mutations of a kernel's launch bounds, where steps are mutated."""
HYBRID_TILES = 0.05
"""Share of mutations that give producers hybrid tiles, or take them, where steps are mutated."""
WARP_TILES = 0.05
"""Share of mutations that give the warps of a kernel tiles of their own, or take them, where steps are mutated."""
CYCLIC = 0.05
"""Share of mutations that distribute points cyclically, where steps are mutated."""
MOST_RESIDENT = 8
"""Most resident blocks of a mutation."""
_TRIES = 8


@dataclass
class Mutator:
    """Mutates one kernel of a schedule.

    Args:
        evaluator: Evaluator of the pipeline and target.
        decider: Option enumerator of searches with the same evaluator; by default a new one.
        steps: Whether kernels with mainloops and sliding windows are mutated, and get them, and whether resident blocks
            tiles of warps and hybrid tiles are mutated (GPU only).
    """

    evaluator: KernelEvaluator
    decider: InitVar[OptionEnumerator | None] = None
    steps: bool = False
    _decider: OptionEnumerator = field(init=False)
    _cache_reads: CacheReadSearch = field(init=False)
    _mainloops: MainloopMutator = field(init=False)
    _windows: SlidingWindowMutator = field(init=False)

    def __post_init__(self, decider: OptionEnumerator | None) -> None:
        self._decider = decider or OptionEnumerator(self.evaluator)
        self._cache_reads = CacheReadSearch(self.evaluator, self._decider, Retiler(self.evaluator, self._decider))
        self._mainloops = MainloopMutator(self.evaluator, self._decider)
        self._windows = SlidingWindowMutator(self.evaluator, self._decider)
        self.steps &= self.evaluator.target.kind == "cuda"

    def mutated(self, schedule: Schedule, rng: np.random.Generator) -> Schedule | None:
        """Return a legal schedule with one mutated kernel, or None if `_TRIES` mutations are illegal.

        Args:
            schedule: Any legal schedule of the pipeline.
            rng: Source of randomness.
        """
        bound, target = self.evaluator.bound, self.evaluator.target
        for _ in range(_TRIES):
            k = int(rng.integers(len(schedule.kernels)))
            mutation = self._mutation(schedule, k, rng)
            if mutation is None or mutation == schedule:
                continue
            fresh = (kernel for kernel in mutation.kernels if kernel not in schedule.kernels)
            if any(kernel_violations(bound, kernel, target) for kernel in fresh):
                continue
            if not violations(bound, mutation, target):
                return mutation
        return None

    def _mutation(self, schedule: Schedule, k: int, rng: np.random.Generator) -> Schedule | None:
        """Return a schedule with a mutation of its kernel ``k``, which may be illegal; None if there is none."""
        kernel = schedule.kernels[k]
        drawn = rng.random() if self.steps else 1.0
        if drawn < RESIDENT_BLOCKS + WARP_TILES + HYBRID_TILES:
            if drawn < RESIDENT_BLOCKS:
                changed: Kernel | None = replace(kernel, resident_blocks=int(rng.integers(MOST_RESIDENT + 1)))
            elif drawn < RESIDENT_BLOCKS + WARP_TILES:
                changed = self._with_other_warps(kernel, rng)
            else:
                changed = self._with_other_registers(kernel, rng)
            if changed is None:
                return None
            return replace(schedule, kernels=(*schedule.kernels[:k], changed, *schedule.kernels[k + 1 :]))
        try:
            if self.steps and kernel.mainloop_at is None and rng.random() < ADDED_STEPS:
                ways = [self._mainloops.added, self._windows.added]
                with_steps = (ways[int(n)](schedule, k, rng) for n in rng.permutation(2))
                return next((s for s in with_steps if s is not None), None)
            if self.steps and kernel.mainloop_at is not None:
                mutator = self._windows if kernel.is_sliding_window else self._mainloops
                kernels = mutator.changed(kernel, rng)
            else:
                mutated = self._mutated_kernel(kernel, rng)
                kernels = None if mutated is None else (mutated,)
        except AutoschedError:  # a kernel outside of the search space
            return None
        if kernels is None:
            return None
        return replace(schedule, kernels=(*schedule.kernels[:k], *kernels, *schedule.kernels[k + 1 :]))

    def _with_other_warps(self, kernel: Kernel, rng: np.random.Generator) -> Kernel | None:
        """Return a kernel with tiles of its warps, or of blocks of one warp if it has them; None if there is none."""
        bound, target = self.evaluator.bound, self.evaluator.target
        if kernel.warp_loops:
            return merge_warp_loops(insert_cache_reads(bound, kernel.cache_reads), kernel)
        return random_warp_tiles(bound, kernel, target, rng)

    def _with_other_registers(self, kernel: Kernel, rng: np.random.Generator) -> Kernel | None:
        """Return a kernel with random hybrid tiles, or without any if it has some; None if there is none."""
        whole = without_hybrid_tiles(kernel)
        return (
            whole if whole != kernel else random_hybrid_tiles(self.evaluator.bound, kernel, self.evaluator.target, rng)
        )

    def _mutated_kernel(self, kernel: Kernel, rng: np.random.Generator) -> Kernel | None:
        """Return a kernel that differs in one respect; fused producers keep their threads as far as regions allow.

        Hybrid tiles stay as they are where they are legal.
        """
        whole = without_hybrid_tiles(kernel)
        if whole != kernel:
            mutated_whole = self._mutated_kernel(whole, rng)
            return None if mutated_whole is None else _with_tiles_of(mutated_whole, kernel)
        sketch, params = describe_kernel(self.evaluator.bound, kernel)
        if sketch.lanes:
            return None  # tilings of warp reductions are not enumerated here
        sketch = self._decider.compute_locations.one(sketch)
        if self.steps and not sketch.orders and rng.random() < CYCLIC:
            variants = list(cyclic_variants(self.evaluator.bound, sketch))
            return self._built(variants[int(rng.integers(len(variants)))], params) if variants else None
        if self.evaluator.target.kind != "cpu" and rng.random() < SHARED:
            mutated = self._with_other_memory(sketch, params, rng)
        else:
            mutated = self._with_other_tiles(sketch, params, rng)
        return None if mutated is None else self._built(*mutated)

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


def _with_tiles_of(kernel: Kernel, other: Kernel) -> Kernel:
    """Return a kernel with the hybrid tiles that the same producers of another kernel have."""
    tiles = {m.func: m.registers for m in other.fused}
    return replace(kernel, fused=tuple(replace(m, registers=tiles.get(m.func)) for m in kernel.fused))
