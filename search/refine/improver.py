"""Replacement of a schedule's kernels by faster ones, site by site."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Kernel, Schedule
from autosched.search.cost.protocol import rounded_cost
from autosched.target import Target


class ReplaceableSite(Protocol):
    """Kernels of a schedule that one kernel can replace."""

    @property
    def kernels(self) -> tuple[int, ...]:
        """Positions of these kernels in the schedule."""


class CostedKernel(Protocol):
    """A kernel with its predicted time."""

    @property
    def kernel(self) -> Kernel:
        """The kernel."""

    @property
    def seconds(self) -> float:
        """Its predicted time."""


@dataclass(frozen=True)
class KernelSite:
    """A kernel of a schedule that another one may replace.

    Attributes:
        kernels: Its position in the schedule.
        kernel: The kernel.
    """

    kernels: tuple[int, ...]
    kernel: Kernel


@dataclass(frozen=True)
class RetiledKernel:
    """A kernel with refined tiles.

    Attributes:
        kernel: The kernel.
        seconds: Its predicted time.
    """

    kernel: Kernel
    seconds: float


class ScheduleImprover(Protocol):
    """Finds faster kernels for parts of a schedule."""

    def improved(self, schedule: Schedule, costs: Mapping[Kernel, float]) -> tuple[Schedule, float] | None:
        """Return a schedule that is predicted to be faster, and its time; None if there is none.

        Args:
            schedule: A legal schedule.
            costs: Predicted seconds of its kernels.
        """


Site = TypeVar("Site", bound=ReplaceableSite)


def improve_schedule(
    bound: BoundPipeline,
    target: Target,
    schedule: Schedule,
    costs: Mapping[Kernel, float],
    sites: Iterable[Site],
    best_kernel: Callable[[Site, float], CostedKernel | None],
    least_share: float = 0.0,
) -> tuple[Schedule, float] | None:
    """Return the schedule with a faster kernel at each site that has one, and its time; None if no site has one.

    Sites that share a kernel are alternatives: the first one that gains replaces it.

    Args:
        bound: The pipeline.
        target: Device limits.
        schedule: A legal schedule.
        costs: Predicted seconds of its kernels.
        sites: Sites of the schedule.
        best_kernel: Returns the fastest kernel for a site, given the seconds of its present kernels; None if the site
            has no alternative.
        least_share: Share of the schedule's time below which a site is skipped.
    """
    total = sum(costs.values())
    improved, gained = schedule, 0.0
    replaced: set[int] = set()
    for site in sites:
        before = [schedule.kernels[k] for k in site.kernels]
        current_seconds = sum(costs[k] for k in before)
        if not current_seconds or current_seconds < least_share * total or replaced.intersection(site.kernels):
            continue
        best = best_kernel(site, current_seconds)
        if best is None or rounded_cost(best.seconds) >= rounded_cost(current_seconds):
            continue
        candidate = replace(improved, kernels=replace_kernels(improved.kernels, before, best.kernel))
        if not violations(bound.root_pipeline, candidate, target):
            improved = candidate
            gained += current_seconds - best.seconds
            replaced.update(site.kernels)
    return None if improved is schedule else (improved, total - gained)


def replace_kernels(kernels: tuple[Kernel, ...], before: list[Kernel], after: Kernel) -> tuple[Kernel, ...]:
    """Return kernels with one in place of several, at the position of the last one, after all of its producers."""
    last = max(kernels.index(k) for k in before)
    return tuple(after if n == last else k for n, k in enumerate(kernels) if n == last or k not in before)
