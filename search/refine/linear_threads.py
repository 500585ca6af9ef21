"""Linear threads for kernels with tiles in shared memory, where they are predicted to be faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.schedule.types import Kernel, Level
from autosched.search.evaluate.batched import Kernel as SearchedKernel
from autosched.search.evaluate.batched import run_batched
from autosched.search.refine.improver import RetiledKernel
from autosched.search.refine.kernel_search import KernelSearch

LEAST_GAIN = 0.015
"""Least predicted gain of a kernel, and of linear threads over threads along axes. Simulated times of smaller gains
differ in either direction."""


class LinearThreadSearch(KernelSearch):
    """Numbers the threads of kernels by a linear index, and refines the threads of their producers for both numberings.

    The root keeps its tile: other tiles take other registers, which no model predicts well.
    """

    @property
    def least_gain(self) -> float:
        """Least predicted gain of a kernel."""
        return LEAST_GAIN

    def applies_to(self, kernel: Kernel) -> bool:
        """Return whether a kernel has tiles in shared memory, no mainloop and no private producer."""
        shared = any(m.at.level is Level.BLOCK for m in kernel.fused)
        return shared and kernel.mainloop_at is None and not any(m.private for m in kernel.fused)

    def search(self, kernels: Mapping[Kernel, float]) -> dict[Kernel, RetiledKernel | None]:
        """Return kernels with other threads; the searches, for both numberings of all kernels, share batches."""
        starts: dict[Kernel, list[SearchedKernel]] = {}
        for kernel in kernels:
            described, params = describe_kernel(self.bound, kernel)
            numberings = () if described.lanes or self.late() else (False, True)
            starts[kernel] = [(replace(described, linear_threads=n), params) for n in numberings]
        evaluator = self._retiler.evaluator
        listed = [start for both in starts.values() for start in both]
        evaluator.evaluate(listed)
        searches = [self._retiler.descend(*start, vectors=True, root=False) for start in listed]
        refined = iter(run_batched(evaluator, searches))
        return {k: self._fastest([next(refined) for _ in both], kernels[k]) for k, both in starts.items()}

    def _fastest(self, variants: Sequence[SearchedKernel], seconds: float) -> RetiledKernel | None:
        """Return the last kernel that gains over the earlier ones and over the present time; None if there is none."""
        evaluator = self._retiler.evaluator
        best: SearchedKernel | None = None
        limit = (1 - LEAST_GAIN) * seconds
        for refined in variants:
            cost = evaluator.verdict(*refined).cost
            if cost <= limit and self._retiler.is_legal(*refined):
                best, limit = refined, (1 - LEAST_GAIN) * cost
        return None if best is None else self._built(best)
