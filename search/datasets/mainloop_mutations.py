"""Mutations of kernels with a mainloop, and mainloops for reductions without one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.scaling.mainloop_scaling import single_step_kernel
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.schedule.tilings import inlined_calls
from autosched.schedule.types import Kernel, Schedule, StageId
from autosched.search.beam.state import Params
from autosched.search.datasets.tiling_draws import draw_tiling, root_tiling
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.improver import replace_kernels
from autosched.search.refine.mainloop.mainloop_sites import (
    MainloopSite,
    mainloop_sites,
    site_of_mainloop,
    step_lengths,
    terms_of_step,
)
from autosched.search.refine.mainloop.step_search import StepTilingSearch, TransferMode
from autosched.search.space.option_enumeration import OptionEnumerator

BEST_TILINGS = 16
"""Tilings of a new mainloop are drawn from so many with the shortest predicted times."""
CHANGES, CHANGE_SHARES = ("tiles", "steps", "filling", "without"), (0.5, 0.2, 0.2, 0.1)
"""Respects in which a mutation differs, with their probabilities."""


@dataclass
class MainloopMutator:
    """Mutates mainloops over reductions.

    Args:
        evaluator: Evaluator of the pipeline and target.
        enumerator: Option enumerator with the same evaluator.
    """

    evaluator: KernelEvaluator
    enumerator: OptionEnumerator
    _searches: dict[object, StepTilingSearch] = field(init=False, default_factory=dict)

    @property
    def bound(self) -> BoundPipeline:
        """The pipeline of the kernels."""
        return self.evaluator.bound.rewritten

    def changed(self, kernel: Kernel, rng: np.random.Generator) -> tuple[Kernel, ...] | None:
        """Return kernels in place of one with a mainloop; they may be illegal. None if there is no such change.

        One respect differs: the tile of one step, the number of steps, or the transfer of operands (`TransferMode`). Or
        there is no mainloop, and the epilogue has a kernel of its own.

        Args:
            kernel: A kernel with a mainloop over a reduction.
            rng: Source of randomness.
        """
        site, step = site_of_mainloop(self.bound, kernel, 0), single_step_kernel(self.bound, kernel)
        if site is None or step is None:
            return None
        scaling, single = step
        terms = terms_of_step(kernel)
        root = root_tiling(scaling.bound, single)
        change = str(rng.choice(CHANGES, p=CHANGE_SHARES))
        if change == "filling":
            others = [t for t in TransferMode if t is not TransferMode.of(kernel)]
            if site.computed:
                return None
            return (others[int(rng.integers(len(others)))].applied(kernel),)
        if change == "without":
            return self._without(site, root)
        if change == "steps":
            lengths = [n for n in step_lengths(self.bound.stage(*site.host), site.lengths) if n != terms]
            if not lengths:
                return None
            search = self._search(site, lengths[int(rng.integers(len(lengths)))], TransferMode.of(kernel))
            return (search.kernel(search.sketch, search.filled(root)),)
        search = self._search(site, terms, TransferMode.of(kernel))
        tiling = draw_tiling(search.enumerator.tilings(search.sketch), root, rng)
        return None if tiling is None else (search.kernel(search.sketch, search.filled(tiling)),)

    def added(self, schedule: Schedule, position: int, rng: np.random.Generator) -> Schedule | None:
        """Return a schedule with a mainloop in the kernel at a position; it may be illegal. None if there is none."""
        sites = [s for s in mainloop_sites(self.bound, schedule) if position in s.kernels]
        if not sites:
            return None
        site = sites[int(rng.integers(len(sites)))]
        lengths = step_lengths(self.bound.stage(*site.host), site.lengths)
        if not lengths:
            return None
        transfer = list(TransferMode)[int(rng.integers(len(TransferMode)))]
        search = self._search(site, lengths[int(rng.integers(len(lengths)))], transfer)
        if not search.is_supported:
            return None
        if not search.tiled:
            search.tile()
        best = search.tiled[:BEST_TILINGS]
        if not best:
            return None
        kernel = search.kernel(search.sketch, best[int(rng.integers(len(best)))])
        before = [schedule.kernels[k] for k in site.kernels]
        return replace(schedule, kernels=replace_kernels(schedule.kernels, before, kernel))

    def _search(self, site: MainloopSite, terms: Mapping[str, int], transfer: TransferMode) -> StepTilingSearch:
        key = site.stages, site.reader, site.inlined, site.computed, tuple(sorted(terms.items())), transfer
        if key not in self._searches:
            e = self.evaluator
            self._searches[key] = StepTilingSearch(self.bound, e.target, e.model, e.settings, site, terms, transfer)
        return self._searches[key]

    def _without(self, site: MainloopSite, root: Params) -> tuple[Kernel, ...] | None:
        """Return the kernels of a site without a mainloop, with the tile of one step."""
        if site.computed:
            return None
        parts = [site.stages] if site.reader is None else [site.stages, (StageId(site.reader),)]
        kernels = [self._plain(stages, site.inlined, root) for stages in parts]
        return None if any(k is None for k in kernels) else tuple(k for k in kernels if k is not None)

    def _plain(self, stages: tuple[StageId, ...], inlined: frozenset[str], root: Params) -> Kernel | None:
        through = frozenset(inlined_calls(self.evaluator.bound, stages, set(inlined)))
        sketch = self.enumerator.compute_locations.one(KernelSketch(stages, (), through))
        if self.enumerator.compute_locations.layout(sketch).root_serial.stop != len(root):
            return None
        return build_kernel(self.evaluator.kernel_model(sketch), np.array(root, np.int64))
