"""Searches that replace single kernels of a schedule by faster ones: the part that all of them share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.schedule.types import Kernel, Schedule
from autosched.search.cost.protocol import CostModel
from autosched.search.evaluate.batched import Kernel as SearchedKernel
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.improver import KernelSite, RetiledKernel, improve_schedule
from autosched.search.refine.retile import Retiler
from autosched.search.settings import SearchSettings
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.target import Target

LEAST_SHARE = 0.05
"""Share of a schedule's predicted time below which a kernel is skipped."""


@dataclass
class KernelSearch(ABC):
    """Finds a faster kernel in place of one of a schedule; results are cached by kernel.

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

    aligns: ClassVar[bool] = True
    """Whether tile alignments are tried (`Retiler`)."""

    def __post_init__(self) -> None:
        evaluator = KernelEvaluator(self.bound, self.target, self.model, self.settings)
        self._retiler = Retiler(evaluator, OptionEnumerator(evaluator), self.late, aligns=self.aligns)

    @property
    @abstractmethod
    def least_gain(self) -> float:
        """Least predicted gain of a kernel, as a share of its time."""

    @abstractmethod
    def applies_to(self, kernel: Kernel) -> bool:
        """Return whether a kernel has the form that the search improves."""

    @abstractmethod
    def search(self, kernels: Mapping[Kernel, float]) -> dict[Kernel, RetiledKernel | None]:
        """Return the fastest kernel found in place of each; None if there is none, or the time budget has ended.

        Args:
            kernels: Kernels that the search applies to, with their predicted seconds.
        """

    def improved(self, schedule: Schedule, costs: Mapping[Kernel, float]) -> tuple[Schedule, float] | None:
        """Return a schedule that is predicted to be faster, and its time; see `ScheduleImprover.improved`."""
        sites = [KernelSite((k,), kernel) for k, kernel in enumerate(schedule.kernels) if self.applies_to(kernel)]
        least = LEAST_SHARE * sum(costs.values())
        long = {site.kernel: costs[site.kernel] for site in sites if costs[site.kernel] >= least}
        self._best |= self.search({k: seconds for k, seconds in long.items() if k not in self._best})
        return improve_schedule(self.bound, self.target, schedule, costs, sites, self._gaining, LEAST_SHARE)

    def fastest(self, kernel: Kernel, seconds: float = math.inf) -> RetiledKernel | None:
        """Return the fastest kernel found in place of one; None if there is none.

        Args:
            kernel: The kernel.
            seconds: Its predicted time.
        """
        if kernel not in self._best:
            self._best |= self.search({kernel: seconds})
        return self._best[kernel]

    def _gaining(self, site: KernelSite, seconds: float) -> RetiledKernel | None:
        """Return the fastest kernel for a site if its predicted gain suffices."""
        best = self._best[site.kernel]
        return best if best is not None and best.seconds <= (1 - self.least_gain) * seconds else None

    def _built(self, searched: SearchedKernel) -> RetiledKernel:
        """Return an evaluated kernel with its predicted time."""
        evaluator = self._retiler.evaluator
        kernel = build_kernel(evaluator.kernel_model(searched[0]), np.array(searched[1], np.int64))
        return RetiledKernel(kernel, evaluator.verdict(*searched).cost)
