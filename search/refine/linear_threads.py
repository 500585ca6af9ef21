"""Linear threads for kernels with tiles in shared memory, where they are predicted to be faster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.schedule.types import Kernel, Level, Schedule
from autosched.search.cost.protocol import CostModel
from autosched.search.evaluate.batched import Kernel as SearchedKernel
from autosched.search.evaluate.batched import run_batched
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.improver import KernelSite, RetiledKernel, improve_schedule
from autosched.search.refine.retile import Retiler
from autosched.search.settings import SearchSettings
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.target import Target

LEAST_GAIN = 0.015
"""Least predicted gain of a kernel, and of linear threads over threads along axes. Simulated times of smaller gains
differ in either direction."""
LEAST_SHARE = 0.05
"""Share of a schedule's predicted time below which a kernel is skipped."""


@dataclass
class LinearThreadSearch:
    """Numbers the threads of kernels by a linear index, and refines the threads of their producers for both numberings.

    The root keeps its tile: other tiles take other registers, which no model predicts well.

    Args:
        bound: The pipeline.
        target: Device limits.
        model: Cost model.
        settings: Search settings.
        late: Returns whether the time budget has ended.
    """

    bound: BoundPipeline
    target: Target
    model: CostModel
    settings: SearchSettings
    late: Callable[[], bool] = lambda: False
    _retiler: Retiler = field(init=False)
    _best: dict[Kernel, RetiledKernel | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        evaluator = KernelEvaluator(self.bound, self.target, self.model, self.settings)
        self._retiler = Retiler(evaluator, OptionEnumerator(evaluator), self.late)

    def improved(self, schedule: Schedule, costs: Mapping[Kernel, float]) -> tuple[Schedule, float] | None:
        """Return a schedule that is predicted to be faster, and its time; see `ScheduleImprover.improved`."""
        sites = [
            KernelSite((k,), kernel)
            for k, kernel in enumerate(schedule.kernels)
            if kernel.mainloop_at is None
            and any(m.at.level is Level.BLOCK for m in kernel.fused)
            and not any(m.private for m in kernel.fused)
        ]
        least = LEAST_SHARE * sum(costs.values())
        self._refine([site.kernel for site in sites if costs[site.kernel] >= least], costs)
        return improve_schedule(self.bound, self.target, schedule, costs, sites, self._best_kernel, LEAST_SHARE)

    def _best_kernel(self, site: KernelSite, seconds: float) -> RetiledKernel | None:
        """Return the kernel of a site with other threads if its predicted gain suffices."""
        return self._best[site.kernel]

    def _refine(self, kernels: Sequence[Kernel], costs: Mapping[Kernel, float]) -> None:
        """Find other threads of all kernels; their searches, for both numberings, share evaluation batches."""
        evaluator = self._retiler.evaluator
        starts: dict[Kernel, list[SearchedKernel]] = {}
        for kernel in kernels:
            if kernel not in self._best:
                described, params = describe_kernel(self.bound, kernel)
                numberings = () if described.lanes or self.late() else (False, True)
                starts[kernel] = [(replace(described, linear_threads=n), params) for n in numberings]
        listed = [start for both in starts.values() for start in both]
        evaluator.evaluate(listed)
        searches = [self._retiler.descend(*start, vectors=True, root=False) for start in listed]
        refined = iter(run_batched(evaluator, searches))
        for kernel, both in starts.items():
            self._best[kernel] = self._fastest([next(refined) for _ in both], costs[kernel])

    def _fastest(self, variants: Sequence[SearchedKernel], seconds: float) -> RetiledKernel | None:
        """Return the last kernel that gains over the earlier ones and over the present time; None if there is none."""
        evaluator = self._retiler.evaluator
        best, limit = None, (1 - LEAST_GAIN) * seconds
        for refined in variants:
            cost = evaluator.verdict(*refined).cost
            if cost <= limit and self._retiler.is_legal(*refined):
                best, limit = (refined, cost), (1 - LEAST_GAIN) * cost
        if best is None:
            return None
        (sketch, row), cost = best
        return RetiledKernel(build_kernel(evaluator.kernel_model(sketch), np.array(row, np.int64)), cost)
