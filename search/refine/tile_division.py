"""Division of a kernel's tiles between registers and shared memory (PolyMage-GPU, section 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import inf

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.errors import ScheduleError
from autosched.featurize.featurizer import Featurizer
from autosched.schedule.kernel.lane_steps import required_points, root_lanes, with_lane_steps
from autosched.schedule.legality.fused_producers import transitive_sources
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import TILE_LEVELS, FusedProducer, Kernel, Level
from autosched.search.cost.protocol import CostModel, rounded_cost
from autosched.search.refine.improver import RetiledKernel
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.search.space.register_shares import hybrid_tiles, neighbouring_points
from autosched.target import Target

SWEEPS = 2
"""Most sweeps of coordinate descent over the producers of a kernel."""
MOST_COSTED = 64
"""Kernels that are costed for one tile of a warp; then its descent ends."""


@dataclass
class TileDivision:
    """Chooses the share of each producer's tile in registers by coordinate descent.

    Args:
        bound: The pipeline.
        target: Device limits.
        model: Cost model.
        late: Returns whether the time budget has ended; the descent then returns its best result so far.
    """

    bound: BoundPipeline
    target: Target
    model: CostModel
    late: Callable[[], bool] = lambda: False
    _featurizer: Featurizer = field(init=False)
    _seconds: dict[Kernel, float] = field(init=False, default_factory=dict)
    _costed: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._featurizer = Featurizer(self.bound, self.target)

    def seconds(self, kernel: Kernel) -> float:
        """Return the predicted time of a kernel, infinite if it is illegal."""
        if kernel not in self._seconds:
            illegal = kernel_violations(self.bound, kernel, self.target)
            self._seconds[kernel] = inf if illegal else evaluated(self._featurizer, kernel).seconds(self.model)
            self._costed += not illegal
        return self._seconds[kernel]

    def divided(self, kernel: Kernel) -> RetiledKernel | None:
        """Return the fastest kernel with hybrid tiles that coordinate descent finds; None if there is none.

        All producers in shared memory get the lanes of the root. Those that the root reads are decided first.

        Args:
            kernel: A kernel with producers in shared memory, whose warps have tiles.
        """
        tilings = self._tilings(kernel)
        if not tilings:
            return None
        free = set(tilings) - self._of_threads(kernel)
        best = _with_producers(kernel, *(forms[0] for forms in tilings.values()))
        costed = self._costed
        for _ in range(SWEEPS):
            present = best
            for func in (name for name in reversed(tilings) if name in free):
                if self._costed - costed < MOST_COSTED:
                    best = self._cheapest(best, tilings[func])
            if best == present:
                break
        seconds = self.seconds(best)
        return RetiledKernel(best, seconds) if best.has_hybrid_tiles and seconds < inf else None

    def _cheapest(self, best: Kernel, forms: list[FusedProducer]) -> Kernel:
        """Return a kernel with the cheapest hybrid tile of one producer; itself if none is cheaper in time."""
        for producer in _divisions(forms):
            if self.late():
                break
            variant = _with_producers(best, producer)
            if rounded_cost(self.seconds(variant)) < rounded_cost(self.seconds(best)):
                best = variant
        return best

    def _tilings(self, kernel: Kernel) -> dict[str, list[FusedProducer]]:
        """Return the producers in shared memory with the root's lanes, for each number of neighbouring points."""
        try:
            plan = plan_kernel(self.bound, kernel)
        except ScheduleError:
            return {}
        lanes, forms = root_lanes(kernel), neighbouring_points(kernel)
        tilings: dict[str, list[FusedProducer]] = {}
        for m in kernel.fused:
            extents = required_points(plan, m) if m.at.level in TILE_LEVELS else None
            if extents is not None:
                tilings[m.func] = [with_lane_steps(m, lanes, extents, points) for points in forms]
        return tilings

    def _of_threads(self, kernel: Kernel) -> set[str]:
        """Return the Funcs that producers at THREAD read or are inside of; their tiles are in shared memory alone."""
        cached, inlined = insert_cache_reads(self.bound, kernel.cache_reads), {i.func for i in kernel.inlined}
        inside = [m for m in kernel.fused if m.at.level is Level.THREAD]
        read = (transitive_sources(cached, cached.stage(*t.stage), inlined) for m in inside for t in m.tilings)
        return {m.at.host.func for m in inside}.union(*read)


def _divisions(forms: list[FusedProducer]) -> Iterator[FusedProducer]:
    """Yield a producer in shared memory, and with each hybrid tile, for each number of neighbouring points."""
    for m in dict.fromkeys(forms):
        yield from (m, *(replace(m, registers=tile) for tile in hybrid_tiles(m)))


def _with_producers(kernel: Kernel, *producers: FusedProducer) -> Kernel:
    """Return a kernel with other producers in place of those of the same Funcs."""
    of_func = {m.func: m for m in producers}
    return replace(kernel, fused=tuple(of_func.get(m.func, m) for m in kernel.fused))
