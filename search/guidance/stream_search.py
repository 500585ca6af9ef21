"""Kernels that stream along the dimension of a guide, whatever their predicted times."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import cache_name, cached_source, insert_cache_reads
from autosched.featurize.sketch.sketch import innermost_dim
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Kernel, Schedule, StageId
from autosched.search.cost.protocol import CostModel
from autosched.search.guidance.conformance import copy_sources, theoretical_occupancy
from autosched.search.guidance.direct_loads import LEAST_LOADS, direct_loads
from autosched.search.guidance.level_restrictions import EVERY_LEVEL, level_restrictions
from autosched.search.refine.improver import replace_kernels
from autosched.search.refine.sliding_window.register_search import RegisterWindowKernel, RegisterWindowSearch
from autosched.search.refine.sliding_window.sliding_search import SlidingWindowKernel, SlidingWindowSearch
from autosched.search.refine.sliding_window.sliding_sites import LEAST_ROWS, SlidingWindowSite, sliding_window_sites
from autosched.search.refine.sliding_window.window_choices import WindowChoices
from autosched.search.settings import SearchSettings
from autosched.target import Target

MOST_BUFFERED = 2
"""Inlined Funcs of a kernel, those whose evaluations load the most, that are tried in rolling buffers."""
StreamingKernel = SlidingWindowKernel | RegisterWindowKernel
USUALLY_WITHIN = 2.0
"""Ratio of predicted times, of a streaming kernel over those that it replaces, up to which one is sought first."""


@dataclass
class StreamSearch:
    """Replaces the kernels of a schedule that a guide streams by kernels with sliding windows.

    Args:
        bound: The pipeline.
        target: A GPU.
        model: Cost model.
        settings: Search settings with the guide.
        late: Returns whether the time budget has ended.

    Attributes:
        reasons: Why kernels cannot stream, by the Func of the kernel.
    """

    bound: BoundPipeline
    target: Target
    model: CostModel
    settings: SearchSettings
    late: Callable[[], bool] = lambda: False
    reasons: dict[str, str] = field(init=False, default_factory=dict)
    _search: SlidingWindowSearch = field(init=False)
    _register_searches: dict[str, RegisterWindowSearch] = field(init=False, default_factory=dict)
    _allowed: Mapping[str, frozenset[str]] = field(init=False)

    def __post_init__(self) -> None:
        self._search = SlidingWindowSearch(self.bound, self.target, self.model, self.settings, self.late)
        self._allowed = level_restrictions(self.bound, self.settings.guide)

    def improved(self, schedule: Schedule, costs: Mapping[Kernel, float]) -> tuple[Schedule, float] | None:
        """Return the schedule with streaming kernels, and its predicted time; None if a kernel cannot stream.

        Args:
            schedule: A legal schedule.
            costs: Predicted seconds of its kernels.
        """
        guide = self.settings.guide
        total, streaming = sum(costs.values()), schedule
        for kernel in reversed(schedule.kernels):
            func = kernel.root_funcs[0]
            if kernel not in streaming.kernels or guide.of(func).stream not in self.bound.funcs[func].dims:
                continue
            found = self._fastest(streaming, streaming.kernels.index(kernel), costs)
            if found is None:
                return None
            site, best = found
            before = [streaming.kernels[k] for k in site.kernels]
            total += best.seconds - sum(costs[k] for k in before)
            streaming = replace(streaming, kernels=replace_kernels(streaming.kernels, before, best.kernel))
        if streaming is schedule or violations(self.bound.root_pipeline, streaming, self.target):
            return None
        return streaming, total

    def _fastest(
        self, schedule: Schedule, position: int, costs: Mapping[Kernel, float]
    ) -> tuple[SlidingWindowSite, StreamingKernel] | None:
        """Return the streaming kernel with the largest gain for the kernel at a position, and its site."""
        func = schedule.kernels[position].root_funcs[0]
        sites = list(self._sites(schedule, position))
        seconds = [sum(costs[schedule.kernels[k]] for k in site.kernels) for site in sites]
        best: tuple[float, SlidingWindowSite, StreamingKernel] | None = None
        for slowest in (USUALLY_WITHIN, math.inf):
            for site, before in zip(sites, seconds, strict=True):
                most = slowest * before if best is None else before - best[0]
                found = self._with_occupancy(site, most)
                if found is not None and (best is None or before - found[1].seconds > best[0]):
                    best = before - found[1].seconds, *found
            if best is not None:
                return best[1], best[2]
        self.reasons[func] = self._reason(func, has_sites=bool(sites))
        return None

    def _reason(self, func: str, *, has_sites: bool) -> str:
        """Return why the kernel of a Func cannot stream."""
        dim, root = self.settings.guide.of(func).stream, self.bound.funcs[func]
        assert dim is not None
        if not has_sites:
            return f"no source or producer moves along {dim}"
        if dim == innermost_dim(root):
            return f"{dim} is the dimension of threadIdx.x"
        points = root.extents[root.dims.index(dim)]
        if points < LEAST_ROWS:
            return f"{dim} has {points} points, less than {LEAST_ROWS}"
        return f"no tiling with a window along {dim} is legal"

    def _with_occupancy(self, site: SlidingWindowSite, most: float) -> tuple[SlidingWindowSite, StreamingKernel] | None:
        """Return the fastest kernel of a site; the least used copies are given up until the occupancy is met.

        Args:
            site: The site.
            most: Predicted seconds from which on a kernel is of no use.
        """
        floor = self.settings.guide.of(site.root.func).occupancy
        while site.fused:
            best = self._best(site, most)
            if best is not None and (
                floor is None or theoretical_occupancy(self.bound, best.kernel, self.target) >= floor
            ):
                return site, best
            copies = sorted(site.cache_reads, key=lambda s: (self._loads(site)[s], s))
            if floor is None or not copies:
                return None
            site = replace(site, fused=tuple(f for f in site.fused if f != cache_name(copies[0])))
        return None

    def _best(self, site: SlidingWindowSite, most: float) -> StreamingKernel | None:
        """Return the fastest streaming kernel of a site; with rows in registers where the guide puts a producer."""
        memory = self.settings.guide.memory
        if not any(memory.get(f) == "registers" for f in site.fused):
            return self._search.best(site, most)
        best = self._register_search(site.root.func).best(site)
        return None if best is None or best.seconds >= most else best

    def _register_search(self, func: str) -> RegisterWindowSearch:
        """Return the search of kernels with windows in registers for the kernel of a Func."""
        if func not in self._register_searches:
            guide, memory = self.settings.guide.of(func), self.settings.guide.memory
            dim = guide.stream
            assert dim is not None
            choices = WindowChoices(
                dim, {d: n for d, n in guide.threads.items() if d != dim}, guide.serial_points(), guide.steps(dim, 1),
                frozenset(f for f, m in memory.items() if m == "registers"),
                frozenset(f for f, m in memory.items() if m == "shared" and f in self.bound.funcs), copies=False,
            )  # fmt: skip
            self._register_searches[func] = RegisterWindowSearch(
                self.bound, self.target, self.model, self.settings, self.late, choices
            )
        return self._register_searches[func]

    def _sites(self, schedule: Schedule, position: int) -> Iterator[SlidingWindowSite]:
        """Yield the sites of a kernel that the guide permits, with the copies that it assigns; each once."""
        kernel = schedule.kernels[position]
        plain = SlidingWindowSite(
            kernel.roots[0].tiling.stage, tuple(m.func for m in kernel.fused),
            frozenset(i.func for i in kernel.inlined), (position,),
        )  # fmt: skip
        others = (s for s in sliding_window_sites(self.bound, schedule, MOST_BUFFERED) if s.kernels[-1] == position)
        seen: set[SlidingWindowSite] = set()
        for site in (plain, *others):
            if self._permits(site):
                for assigned in self._with_copies(site):
                    if assigned not in seen and assigned.fused:
                        seen.add(assigned)
                        yield assigned

    def _permits(self, site: SlidingWindowSite) -> bool:
        """Whether a guide allows the compute locations of a site."""
        inside = [(f, "block") for f in site.fused if cached_source(f) is None] + [(f, "inline") for f in site.inlined]
        direct = copy_sources(self.bound, self.settings.guide, "global")
        return not site.cache_reads & direct and all(kind in self._allowed.get(f, EVERY_LEVEL) for f, kind in inside)

    def _with_copies(self, site: SlidingWindowSite) -> Iterator[SlidingWindowSite]:
        """Yield a site with the copies of the guide; without a choice, also with the copy of the most loaded array."""
        guide = self.settings.guide
        loads = self._loads(site)
        assigned = copy_sources(self.bound, guide, "shared")
        missing = [s for s, n in loads.items() if s in assigned and n >= LEAST_LOADS and s not in site.cache_reads]
        site = self._copying(site, missing)
        yield site
        direct = copy_sources(self.bound, guide, "global")
        free = [s for s, n in loads.items() if n >= LEAST_LOADS and s not in direct and s not in site.cache_reads]
        if free:
            yield self._copying(site, [max(free, key=lambda s: (loads[s], s))])

    def _copying(self, site: SlidingWindowSite, sources: list[str]) -> SlidingWindowSite:
        """Return a site with copies of more arrays, in the order of the pipeline."""
        names = [*site.fused, *map(cache_name, sources)]
        order = list(insert_cache_reads(self.bound, [*site.cache_reads, *sources]).funcs)
        return replace(site, fused=tuple(sorted(names, key=order.index)))

    def _loads(self, site: SlidingWindowSite) -> dict[str, int]:
        """Return the loads of each array that a site's kernel does not compute."""
        fused = [f for f in site.fused if cached_source(f) is None]
        stages = [StageId(f, s.number) for f in fused for s in self.bound.funcs[f].nonempty_stages]
        return direct_loads(self.bound, [site.root, *stages], site.inlined)
