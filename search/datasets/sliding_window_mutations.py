"""Mutations of kernels with a sliding window, and windows for kernels without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.errors import ScheduleError
from autosched.featurize.scaling.sliding_window_scaling import single_slide_kernel
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.schedule.kernel.aligned_tilings import with_register_windows
from autosched.schedule.tilings import inlined_calls
from autosched.schedule.types import Kernel, Level, Schedule, StageId
from autosched.search.beam.state import Params
from autosched.search.datasets.tiling_draws import draw_tiling, root_tiling
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.improver import replace_kernels
from autosched.search.refine.mainloop.step_search import TransferMode
from autosched.search.refine.mainloop.step_tilings import with_filling_threads
from autosched.search.refine.sliding_window.sliding_search import ROWS_OF_STEP
from autosched.search.refine.sliding_window.sliding_sites import (
    SlidingWindowSite,
    site_of_window,
    sliding_window_sites,
)
from autosched.search.refine.sliding_window.walk_search import (
    WalkDirection,
    WalkTilingSearch,
    direction_of,
    sliding_window_kernel,
    step_counts,
    with_step_count,
)
from autosched.search.space.option_enumeration import OptionEnumerator

BEST_TILINGS = 16
"""Tilings of a new window, or of one with other rows per step, are drawn from so many with the shortest predicted
times."""
CHANGES = ("tiles", "rows", "steps", "filling", "registers", "without")
CHANGE_SHARES = (0.3, 0.1, 0.2, 0.15, 0.15, 0.1)
"""Respects in which a mutation differs, with their probabilities."""


@dataclass
class SlidingWindowMutator:
    """Mutates sliding windows.

    Args:
        evaluator: Evaluator of the pipeline and target.
        enumerator: Option enumerator with the same evaluator.
    """

    evaluator: KernelEvaluator
    enumerator: OptionEnumerator
    _searches: dict[object, WalkTilingSearch] = field(init=False, default_factory=dict)

    @property
    def bound(self) -> BoundPipeline:
        """The pipeline of the kernels."""
        return self.evaluator.bound.rewritten

    def changed(self, kernel: Kernel, rng: np.random.Generator) -> tuple[Kernel, ...] | None:
        """Return kernels in place of one with a sliding window; they may be illegal. None if there is no such change.

        One respect differs: the tile of one step, its rows, the number of steps, or how buffers are filled
        (`TransferMode`). Or a window is moved to registers or back. Or there is no window, and a block computes the
        whole tile of each producer.

        Args:
            kernel: A kernel with a sliding window.
            rng: Source of randomness.
        """
        site, direction = site_of_window(kernel, 0), direction_of(kernel)
        change = str(rng.choice(CHANGES, p=CHANGE_SHARES))
        transfer, steps = TransferMode.of(kernel), kernel.mainloops[0].extent
        if change == "filling":
            others = [t for t in TransferMode if t is not transfer]
            return (others[int(rng.integers(len(others)))].applied(kernel),)
        if change == "registers":
            return _with_other_registers(self.bound, kernel, rng)
        if site is None:
            return None
        if change == "steps":
            counts = [n for n in step_counts(self.bound, site, direction) if n != steps]
            return (with_step_count(self.bound, kernel, counts[int(rng.integers(len(counts)))]),) if counts else None
        scaling, single = single_slide_kernel(self.bound, kernel)
        root = root_tiling(scaling.bound, single)
        if change == "without":
            return self._without(site, root)
        if change == "rows":
            points = steps * direction.rows
            numbers = [n for n in ROWS_OF_STEP if n != direction.rows]
            direction = replace(direction, rows=numbers[int(rng.integers(len(numbers)))])
            steps = self._nearest_count(site, direction, points)
            tilings: Sequence[Params] = self._search(site, direction).tiled[:BEST_TILINGS]
        else:
            tilings = self._search(site, direction).tiled
        params = draw_tiling(tilings, root, rng)
        if params is None or steps < 2:
            return None
        walk = self._search(site, direction).walk(params)
        return (sliding_window_kernel(self.bound, site, walk, steps, transfer),)

    def added(self, schedule: Schedule, position: int, rng: np.random.Generator) -> Schedule | None:
        """Return a schedule with a window in the kernel at a position; it may be illegal. None if there is none.

        The kernel may be fused with that of a producer (`sliding_window_sites`).
        """
        sites = [s for s in sliding_window_sites(self.bound, schedule) if position in s.kernels]
        if not sites:
            return None
        site = sites[int(rng.integers(len(sites)))]
        dims = list(site.sliding_dims(self.bound))
        if not dims:
            return None
        dim, windows = dims[int(rng.integers(len(dims)))]
        direction = WalkDirection(dim, ROWS_OF_STEP[int(rng.integers(len(ROWS_OF_STEP)))], windows)
        counts = step_counts(self.bound, site, direction)
        search = self._search(site, direction)
        if not counts or not search.tiled:
            return None
        best = search.tiled[:BEST_TILINGS]
        walk = search.walk(best[int(rng.integers(len(best)))])
        transfer = list(TransferMode)[int(rng.integers(len(TransferMode)))]
        kernel = sliding_window_kernel(self.bound, site, walk, counts[int(rng.integers(len(counts)))], transfer)
        before = [schedule.kernels[k] for k in site.kernels]
        return replace(schedule, kernels=replace_kernels(schedule.kernels, before, kernel))

    def _search(self, site: SlidingWindowSite, direction: WalkDirection) -> WalkTilingSearch:
        key = replace(site, kernels=()), direction
        if key not in self._searches:
            e = self.evaluator
            search = WalkTilingSearch(self.bound, e.target, e.model, e.settings, site, direction, lambda: False)
            self._searches[key] = search
        return self._searches[key]

    def _nearest_count(self, site: SlidingWindowSite, direction: WalkDirection, points: int) -> int:
        """Return the number of steps with which a block has about so many points; 1 if there is none."""
        counts = step_counts(self.bound, site, direction)
        return min(counts, key=lambda n: (abs(n * direction.rows - points), n), default=1)

    def _without(self, site: SlidingWindowSite, root: Params) -> tuple[Kernel, ...] | None:
        """Return the kernel of a site without a window, with the tile of one step."""
        stages = (site.root,)
        locations = tuple(ComputeLocation(m, Level.BLOCK, site.root) for m in site.fused)
        cached = insert_cache_reads(self.evaluator.bound, site.cache_reads)
        inside = [site.root, *(StageId(m, s.number) for m in site.fused for s in cached.funcs[m].nonempty_stages)]
        inlined = frozenset(inlined_calls(cached, inside, set(site.inlined)))
        sketch = self.enumerator.compute_locations.one(KernelSketch(stages, locations, inlined))
        if self.enumerator.compute_locations.layout(sketch).root_serial.stop != len(root):
            return None
        (row,), _ = with_filling_threads(self.evaluator, self.enumerator, sketch, [root])
        return (build_kernel(self.evaluator.kernel_model(sketch), row),)


def _with_other_registers(bound: BoundPipeline, kernel: Kernel, rng: np.random.Generator) -> tuple[Kernel, ...] | None:
    """Return the kernel with one window moved to registers, or from there to shared memory; None if that fails."""
    windows = [m for m in kernel.fused if m.at.level is Level.MAINLOOP]
    changed = windows[int(rng.integers(len(windows)))]
    private = {m.func for m in windows if m.private} ^ {changed.func}
    try:
        return (with_register_windows(bound, kernel, private),)
    except ScheduleError:
        return None
