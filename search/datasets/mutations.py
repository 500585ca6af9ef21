"""Schedules that differ from known ones in one kernel: other tiles, or another use of shared memory."""

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
"""Share of the mutations that change what a kernel has in shared memory, where the device has such memory."""

_TRIES = 8


@dataclass
class Mutator:
    """Changes one kernel of a schedule and leaves the others as they are.

    Args:
        evaluator: Knows pipeline and target.
        decider: Of searches with the same evaluator; a new one if left out.
    """

    evaluator: KernelEvaluator
    decider: InitVar[OptionEnumerator | None] = None
    _decider: OptionEnumerator = field(init=False)
    _stager: CacheReadSearch = field(init=False)

    def __post_init__(self, decider: OptionEnumerator | None) -> None:
        self._decider = decider or OptionEnumerator(self.evaluator)
        self._stager = CacheReadSearch(self.evaluator, self._decider, Retiler(self.evaluator, self._decider))

    def mutated(self, schedule: Schedule, rng: np.random.Generator) -> Schedule | None:
        """Return a legal schedule with one other kernel, or None if some tries find none.

        Args:
            schedule: Any legal schedule of the pipeline.
            rng: Source of randomness.
        """
        bound, target = self.evaluator.bound, self.evaluator.target
        for _ in range(_TRIES):
            k = int(rng.integers(len(schedule.kernels)))
            kernel = self._other(schedule.kernels[k], rng)
            if kernel is None or kernel == schedule.kernels[k] or kernel_violations(bound, kernel, target):
                continue
            found = replace(schedule, kernels=(*schedule.kernels[:k], kernel, *schedule.kernels[k + 1 :]))
            if not violations(bound, found, target):
                return found
        return None

    def _other(self, kernel: Kernel, rng: np.random.Generator) -> Kernel | None:
        """Return a kernel that differs in one respect, its Members keeping their threads as far as regions allow."""
        try:
            structure, params = describe_kernel(self.evaluator.bound, kernel)
            if structure.lanes:
                return None  # tiles here are those of threads that have points of their own
            structure = self._decider.places.one(structure)
            if self.evaluator.target.kind != "cpu" and rng.random() < SHARED:
                found = self._with_other_memory(structure, params, rng)
            else:
                found = self._with_other_tiles(structure, params, rng)
            return None if found is None else self._built(*found)
        except AutoschedError:  # a kernel of a kind that the search does not make
            return None

    def _with_other_tiles(
        self, structure: KernelSketch, params: Params, rng: np.random.Generator
    ) -> tuple[KernelSketch, Params] | None:
        tilings = self._decider.tilings(structure)
        if not tilings:
            return None
        root = self._decider.places.layout(structure).root_serial.stop
        return structure, (*tilings[int(rng.integers(len(tilings)))][:root], *params[root:])

    def _with_other_memory(
        self, structure: KernelSketch, params: Params, rng: np.random.Generator
    ) -> tuple[KernelSketch, Params] | None:
        """Return a kernel with a tile in shared memory that begins elsewhere, or a copy of a source more or less."""
        blocks = [s.func for s in structure.spots if s.level is Level.BLOCK]
        ways = [("align", func) for func in blocks]
        ways += [("drop", func) for func in blocks if cached_source(func) is not None]
        ways += [("copy", source) for source in self._stager.sources(structure)]
        if not ways:
            return None
        way, name = ways[int(rng.integers(len(ways)))]
        if way == "drop":
            left = KernelSketch(
                structure.stages, tuple(s for s in structure.spots if s.func != name), structure.inlined
            )
            return left, self._decider.with_threads(PartialKernel(structure, params, tiled=True), left, name, ())
        found = self._aligned(structure, params, name)
        if way == "copy":
            found = self._stager.variants((structure, params), name)
        return found[int(rng.integers(len(found)))] if found else None

    def _aligned(self, structure: KernelSketch, params: Params, func: str) -> list[tuple[KernelSketch, Params]]:
        """Return a kernel with all other alignments of a Member that are worth a try."""
        spot = structure.spot(func)
        if spot is None:
            return []
        others = {None, *alignments(self.evaluator.kernel_model(structure), func)} - {spot.aligned}
        ordered = sorted(others, key=repr)
        return [(self._decider.places.one(with_alignment(structure, func, a)), params) for a in ordered]

    def _built(self, structure: KernelSketch, params: Params) -> Kernel:
        """Return the kernel of a structure, no Member with more threads than it has points."""
        model = self.evaluator.kernel_model(structure)
        row = np.array([params], np.int64)
        extents = model.member_extents(row) if model.layout.members else {}
        for func, where in model.layout.members:
            row[:, where] = np.minimum(row[:, where], extents[func])
        return build_kernel(model, row[0])
