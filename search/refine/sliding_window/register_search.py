"""Replaces kernels of a schedule by kernels with sliding windows in registers, where these are predicted to be faster.

A block's threads cover the tile of its outermost producer, and the root's tile is smaller by the halo. So tilings are
chosen by the threads of a block, and the root has what its windows leave.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import cache_name, cached_source, insert_cache_reads
from autosched.errors import ScheduleError
from autosched.featurize.featurizer import Featurizer
from autosched.schedule.kernel.aligned_tilings import with_register_windows
from autosched.schedule.legality.fused_producers import transitive_sources
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.tilings import inlined_calls
from autosched.schedule.types import (
    ComputeAt,
    FusedProducer,
    Inlined,
    Kernel,
    Level,
    Loop,
    LoopKind,
    Root,
    Schedule,
    StageId,
    StageTiling,
)
from autosched.search.cost.protocol import CostModel, rounded_cost
from autosched.search.refine.improver import improve_schedule
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.search.refine.sliding_window.sliding_sites import FAR, SlidingWindowSite, sliding_window_sites
from autosched.search.refine.sliding_window.time_bound import least_seconds
from autosched.search.refine.sliding_window.walk_search import step_counts_of
from autosched.search.refine.sliding_window.window_choices import WindowChoices
from autosched.search.settings import SearchSettings
from autosched.target import Target

MOST_BUFFERED = 4
"""Inlined Funcs of a kernel, those whose evaluations load the most, that are tried in windows."""
MOST_COPIED = 4
"""Sources of a kernel, those with the most loads, that are tried with cache reads."""
LEAST_LOADS = 3
"""Loads of a source at one point with which it is copied."""
LEAST_SHARE = 0.05
"""Share of a schedule's predicted time below which a site is skipped."""
THREADS_X, THREADS_Y = (32, 64, 128), (4, 8, 16, 32)
"""Threads of a block to try along the innermost dimension and along the next."""
THREADS_OF_ROW = (64, 128, 256, 512)
"""Threads of a block to try where it has one dimension."""
POINTS = ((1, 1), (2, 1), (1, 2), (2, 2))
"""Points of a thread to try along the next and along the innermost dimension."""
FIRST = (((32, 32), (1, 1), True), ((32, 16), (2, 1), False))
"""Threads, points, and prefetching of the tiles that are tried first."""
FIRST_OF_ROW = (((256, 1), (1, 1), True), ((256, 1), (1, 1), False))
PROBED = 8
SEARCH_WITHIN = 1.1
"""Ratio of the predicted time of the first tile to that of the replaced kernels up to which other tiles are tried."""
USUAL_STEPS = 64
"""Steps of a block for which tilings are compared."""
FREE_REGISTERS, REGISTERS_OF_WINDOW = 32, 4 / 3
"""Registers of addresses and temporaries, and those that a register of a window takes with its temporaries: two sweeps
of smoother7pt have 48, 64 and 107 registers with 12, 24 and 48 in windows."""
REGISTER_BYTES = 4


@dataclass(frozen=True)
class RegisterWindowKernel:
    """A kernel with windows in registers.

    Attributes:
        kernel: The kernel.
        seconds: Its predicted time; like that of other kernels, as if blocks were resident whatever their registers.
        limited_seconds: Its predicted time with the residency that its estimated registers allow.
    """

    kernel: Kernel
    seconds: float
    limited_seconds: float


@dataclass(frozen=True)
class _Form:
    """The choices of a kernel besides its tile.

    Attributes:
        site: The kernels that it replaces.
        dim: The dimension of the root along which windows slide.
        copied: Sources with a cache read.
    """

    site: SlidingWindowSite
    dim: str
    copied: frozenset[str]


@dataclass(frozen=True)
class _Tile:
    """Threads of a block, points of a thread, steps of a block, and whether loads of the next step are prefetched."""

    x: int
    y: int
    points: tuple[int, int]
    steps: int
    prefetches: bool = False


@dataclass(frozen=True)
class _Halo:
    """The windows of a form, found by a kernel with `PROBED` threads of the root along each dimension.

    Attributes:
        names: The windows that can be private.
        threads: Threads of a block beyond those of the root, along the next and along the innermost dimension.
        probe: The kernel.
    """

    names: frozenset[str]
    threads: tuple[int, int]
    probe: Kernel


@dataclass
class RegisterWindowSearch:
    """Finds kernels with windows in registers; results are cached across sites with equal signatures.

    Args:
        bound: The pipeline.
        target: A GPU.
        model: Cost model.
        settings: Search settings.
        late: Returns whether the time budget has ended; the search then returns its best result so far.
        choices: What an expert has chosen.
    """

    bound: BoundPipeline
    target: Target
    model: CostModel
    settings: SearchSettings
    late: Callable[[], bool] = lambda: False
    choices: WindowChoices = field(default_factory=WindowChoices)
    _kernels: dict[SlidingWindowSite, RegisterWindowKernel | None] = field(init=False, default_factory=dict)
    _choices: dict[tuple[object, ...], tuple[int, _Tile] | None] = field(init=False, default_factory=dict)
    _first_seconds: dict[StageId, float] = field(init=False, default_factory=dict)
    """Time of the fastest first tile, by root."""

    def improved(self, schedule: Schedule, costs: Mapping[Kernel, float]) -> tuple[Schedule, float] | None:
        """Return a schedule with windows in registers that is predicted to be faster, and its time; None if none is.

        Args:
            schedule: A legal schedule.
            costs: Predicted seconds of its kernels.
        """
        sites = list(dict.fromkeys(map(self._without_boundaries, self._sites(schedule))))
        total = sum(costs.values())

        def gain(site: SlidingWindowSite) -> float:
            now = sum(costs[schedule.kernels[k]] for k in site.kernels)
            best = self.best(site, now) if now >= LEAST_SHARE * total else None
            return 0.0 if best is None else now - best.seconds

        ordered = sorted(sites, key=gain, reverse=True)
        return improve_schedule(self.bound, self.target, schedule, costs, ordered, self.best, LEAST_SHARE)

    def _sites(self, schedule: Schedule) -> Iterator[SlidingWindowSite]:
        """Yield the sites of a schedule, and its kernels without producers in shared memory."""
        yield from sliding_window_sites(self.bound, schedule, MOST_BUFFERED)
        for k, kernel in enumerate(schedule.kernels):
            root = kernel.roots[0].tiling.stage
            is_plain = len(kernel.roots) == 1 and not kernel.fused and kernel.mainloop_at is None
            if is_plain and self.bound.funcs[root.func].is_pure:
                yield SlidingWindowSite(root, (), frozenset(i.func for i in kernel.inlined), (k,))

    def _without_boundaries(self, site: SlidingWindowSite) -> SlidingWindowSite:
        """Return a site with windows of the sources of boundary conditions, which are inlined."""
        fused, inlined = list(site.fused), set(site.inlined)
        for k, name in enumerate(site.fused):
            func = self.bound.funcs.get(name)
            source = func.stages[0].sources[0] if func is not None and func.boundary is not None else ""
            if source in inlined:
                fused[k] = source
                inlined = inlined - {source} | {name}
        return replace(site, fused=tuple(dict.fromkeys(fused)), inlined=frozenset(inlined))

    def best(self, site: SlidingWindowSite, now: float = math.inf) -> RegisterWindowKernel | None:
        """Return the fastest kernel with windows in registers for a site; None if there is none.

        Args:
            site: The site.
            now: Seconds of the kernels to replace.
        """
        key = replace(site, kernels=())
        if key not in self._kernels:
            if not self._may_gain(site, now):
                return None
            signature = site.signature(self.bound)
            searches = [_TileSearch(self, form) for form in self._forms(site)]
            if signature not in self._choices:
                self._choices[signature] = self._search(searches, now)
            choice = self._choices[signature]
            self._kernels[key] = None if choice is None else searches[choice[0]].kernel(choice[1])
        return self._kernels[key]

    def _may_gain(self, site: SlidingWindowSite, now: float) -> bool:
        """Whether the first tile of a site can come near its kernels, by other sites with its root and by a bound."""
        if self._first_seconds.get(site.root, 0.0) > FAR * now:
            return False
        counts = (step_counts_of(n, 1) for n in self.bound.funcs[site.root.func].extents)
        steps = min((_usual(c) for c in counts if c), default=0)
        return least_seconds(self.bound, site, steps, self.target) <= now

    def _search(self, searches: Sequence[_TileSearch], now: float) -> tuple[int, _Tile] | None:
        """Return the fastest form, by its number, and tile: of the form whose first tile is the fastest."""
        first = [k for k, s in enumerate(searches) if not self.late() and s.first() is not None]
        if not first:
            return None
        number = min(first, key=lambda k: _order(searches[k].first()))
        fastest = _order(searches[number].first())
        root = searches[number].form.site.root
        self._first_seconds[root] = min(fastest, self._first_seconds.get(root, math.inf))
        if fastest > SEARCH_WITHIN * now:
            return None
        tile = searches[number].best()
        return None if tile is None else (number, tile)

    def _forms(self, site: SlidingWindowSite) -> Iterator[_Form]:
        """Yield the dimensions and cache reads to try."""
        copied = self._copied(site)
        tried = (frozenset(copied), frozenset(copied[:1])) if self.choices.copies else ()
        for names in dict.fromkeys((*tried, frozenset[str]())):
            fused = (*site.fused, *(cache_name(s) for s in copied if s in names))
            staged = replace(site, fused=tuple(dict.fromkeys(fused)))
            if not staged.fused:
                continue
            dims = [
                d for d, windows in staged.sliding_dims(self.bound)
                if windows == frozenset(staged.fused) and self.choices.dim in (None, d)
            ]  # fmt: skip
            yield from (_Form(staged, dim, names) for dim in dims[:1])

    def _copied(self, site: SlidingWindowSite) -> list[str]:
        """Return the sources to copy, those with the most loads first."""
        computed = {site.root.func, *site.fused, *site.inlined}
        cached = insert_cache_reads(self.bound, site.cache_reads)
        loads: dict[str, int] = {}
        for func in (site.root.func, *site.fused, *site.inlined):
            for stage in cached.funcs[func].stages:
                for source, count in stage.load_counts.items():
                    loads[source] = loads.get(source, 0) + count
        inlined = set(site.inlined)
        reached = set().union(
            *(
                transitive_sources(cached, s, inlined)
                for f in (site.root.func, *site.fused)
                for s in cached.funcs[f].stages
            )
        )
        ndim = cached.funcs[site.root.func].ndim
        usable = [s for s in reached - computed - site.cache_reads if self._ndim(s) == ndim]
        return sorted(usable, key=lambda s: (-loads.get(s, 0), s))[:MOST_COPIED]

    def _ndim(self, source: str) -> int:
        inputs = self.bound.inputs
        return len(inputs[source].shape) if source in inputs else self.bound.funcs[source].ndim


class _TileSearch:
    """Finds the tile of one form.

    Args:
        search: The search.
        form: The form.
    """

    def __init__(self, search: RegisterWindowSearch, form: _Form) -> None:
        self.search = search
        self.form = form
        self.bound = search.bound
        self.cached = insert_cache_reads(search.bound, form.site.cache_reads)
        self.root = self.cached.funcs[form.site.root.func]
        self.across = [d for d in self.root.dims if d != form.dim]
        self.featurizer = Featurizer(search.bound, search.target)
        self.halos: dict[tuple[int, int], _Halo | None] = {}
        self.starts: list[_Tile] = []
        self.seen: dict[_Tile, RegisterWindowKernel | None] = {}

    @cached_property
    def counts(self) -> list[int]:
        """Step counts of a block to try."""
        return step_counts_of(self.root.extents[self.root.dims.index(self.form.dim)], 1)

    def first(self) -> RegisterWindowKernel | None:
        """Return the kernel of the first tile; None if it is not legal."""
        if not self.counts or len(self.across) > 2:
            return None
        steps = _usual(self.counts)
        choices = FIRST if len(self.across) > 1 else FIRST_OF_ROW
        tiles = [_Tile(*threads, points, steps, ahead and bool(self.form.copied)) for threads, points, ahead in choices]
        if self.search.choices:
            tiles = sorted(self._chosen_tiles(tiles[0]), key=lambda t: _order(self.kernel(t)))[: len(choices)]
        self.starts = list(dict.fromkeys(tiles))
        return self.kernel(self.starts[0]) if self.starts else None

    @property
    def _has_copies(self) -> bool:
        """Whether copies are loaded, which may be prefetched; those of a site only by an expert's choices."""
        return bool(self.form.copied or (self.search.choices and self.form.site.cache_reads))

    def _chosen_tiles(self, tile: _Tile) -> list[_Tile]:
        """Return the tiles of all threads and points to try that an expert's choices admit."""
        chosen = self.search.choices
        threads, points = ([d.get(dim) for dim in reversed(self.across)] for d in (chosen.threads, chosen.points))
        x, y, more_x, more_y = (*_padded(threads), *_padded(points))
        is_row = len(self.across) < 2
        return [
            replace(tile, x=nx, y=ny, points=(py, px), steps=chosen.steps or tile.steps, prefetches=prefetches)
            for nx in ((THREADS_OF_ROW if is_row else THREADS_X) if x is None else (x,))
            for ny in ((1,) if is_row else THREADS_Y if y is None else (y,))
            for py in ((1,) if is_row else sorted({p for p, _ in POINTS}) if more_y is None else (more_y,))
            for px in (sorted({p for _, p in POINTS}) if more_x is None else (more_x,))
            for prefetches in ((False, True) if self._has_copies else (False,))
        ]

    def _admits(self, tile: _Tile) -> bool:
        """Whether an expert's choices admit a tile."""
        chosen, inner = self.search.choices, list(reversed(self.across))
        threads = dict(zip(inner, (tile.x, tile.y), strict=False))
        points = dict(zip(inner, reversed(tile.points), strict=False))
        return (
            chosen.steps in (None, tile.steps)
            and all(chosen.threads.get(d, n) == n for d, n in threads.items())
            and all(chosen.points.get(d, n) == n for d, n in points.items())
        )

    def best(self) -> _Tile | None:
        """Return the tile of the fastest kernel that is reached from one of the first by changes of one choice."""
        starts = [t for t in self.starts if self.kernel(t) is not None]
        return min(map(self._descent, starts), default=None, key=lambda t: _order(self.kernel(t)))

    def _descent(self, tile: _Tile) -> _Tile:
        """Return the tile that is reached from another one, each time by the best change of one choice."""
        while not self.search.late():
            better = min(self._neighbours(tile), default=tile, key=lambda t: _order(self.kernel(t)))
            if _order(self.kernel(better)) >= _order(self.kernel(tile)):
                break
            tile = better
        return tile

    def _neighbours(self, t: _Tile) -> list[_Tile]:
        across = len(self.across)
        tiles = [replace(t, x=n) for n in (THREADS_X if across > 1 else THREADS_OF_ROW)]
        tiles += [replace(t, y=n) for n in (THREADS_Y if across > 1 else ())]
        tiles += [replace(t, points=p) for p in POINTS if across > 1 or p[0] == 1]
        tiles += [replace(t, steps=n) for n in self.counts]
        tiles += [replace(t, prefetches=not t.prefetches)] if self._has_copies else []
        return [n for n in dict.fromkeys(tiles) if n != t and self._admits(n)]

    def kernel(self, tile: _Tile) -> RegisterWindowKernel | None:
        """Return the kernel of a tile, None if there is no legal one."""
        if tile not in self.seen:
            self.seen[tile] = self._evaluated(tile)
        return self.seen[tile]

    def _evaluated(self, tile: _Tile) -> RegisterWindowKernel | None:
        halo = self._halo(tile.points)
        if halo is None:
            return None
        y, x = tile.y - halo.threads[0], tile.x - halo.threads[1]
        if y < 1 or x < 1 or tile.x * tile.y > self.search.target.max_threads_per_block:
            return None
        try:
            kernel = self._tiled(halo, self._untiled(tile, y, x), (y - PROBED, x - PROBED))
        except ScheduleError:
            return None
        if tile.prefetches:
            kernel = kernel.with_double_buffering()
        if kernel_violations(self.bound, kernel, self.search.target):
            return None
        found = evaluated(self.featurizer, kernel)
        windows = float(found.batch_evaluation.thread_bytes[0]) / REGISTER_BYTES
        registers = math.ceil(FREE_REGISTERS + REGISTERS_OF_WINDOW * windows)
        if registers * tile.x * tile.y > self.search.target.registers_per_sm:
            return None
        model = self.search.model
        return RegisterWindowKernel(kernel, found.seconds(model), found.with_registers(model, registers).seconds(model))

    def _tiled(self, halo: _Halo, untiled: Kernel, more: tuple[int, int]) -> Kernel:
        """Return a kernel with the tilings of its windows, which have ``more`` threads than in the probed kernel."""
        if halo.names != {m.func for m in untiled.fused}:
            return with_register_windows(self.bound, untiled, halo.names)
        extents = dict(zip(reversed(self.across), reversed(more), strict=False))
        root = untiled.roots[0].tiling
        axes = [p.dim for p in root.loops if p.kind is LoopKind.THREAD]

        def widened(t: StageTiling) -> StageTiling:
            axis = iter(axes)
            loops = (
                replace(p, extent=p.extent + extents[next(axis)]) if p.kind is LoopKind.THREAD else p for p in t.loops
            )
            return StageTiling(t.stage, tuple(loops))

        fused = tuple(replace(m, tilings=tuple(map(widened, m.tilings))) for m in halo.probe.fused)
        return replace(untiled, fused=fused)

    def _halo(self, points: tuple[int, int]) -> _Halo | None:
        """Return the windows that can be private, and the threads of a block beyond those of the root."""
        if points not in self.halos:
            self.halos[points] = self._find_halo(points)
        return self.halos[points]

    def _find_halo(self, points: tuple[int, int]) -> _Halo | None:
        draft = self._untiled(_Tile(PROBED, PROBED, points, 4), PROBED, PROBED)
        names = self._private(draft)
        if not names:
            return None
        try:
            probe = with_register_windows(self.bound, draft, names)
            x, y, _ = plan_kernel(self.bound, probe).block
        except ScheduleError:
            return None
        return _Halo(frozenset(names), (y - PROBED if len(self.across) > 1 else 0, x - PROBED), probe)

    def _private(self, draft: Kernel) -> list[str]:
        """Return the windows that can be private: all, or those that can be so alone."""

        def can_be(names: Sequence[str]) -> bool:
            try:
                with_register_windows(self.bound, draft, names)
            except ScheduleError:
                return False
            return True

        windows = self.form.site.fused
        if self.search.choices.private is not None:
            copies = [w for w in windows if cached_source(w) is not None]
            return next(filter(can_be, self.search.choices.candidates(windows, copies)), [])
        return list(windows) if can_be(windows) else [w for w in windows if can_be([w])]

    def _untiled(self, tile: _Tile, y: int, x: int) -> Kernel:
        """Return a kernel with some threads of the root, whose windows have no tilings yet."""
        form, site = self.form, self.form.site
        threads = dict(zip(reversed(self.across), (x, y), strict=False))
        points = dict(zip(reversed(self.across), reversed(tile.points), strict=False))
        sizes = dict(zip(self.root.dims, self.root.extents, strict=True))
        blocks = []
        for d in self.root.dims:
            covered = tile.steps if d == form.dim else threads[d] * points[d]
            blocks.append(Loop(d, LoopKind.BLOCK, -(-sizes[d] // covered)))
        inside = [Loop(d, LoopKind.THREAD, threads[d]) for d in reversed(self.across)]
        inside += [Loop(d, LoopKind.SERIAL, points[d]) for d in self.across]
        loops = (*blocks, Loop(form.dim, LoopKind.SERIAL, tile.steps), *inside)
        at = ComputeAt(Level.MAINLOOP, site.root, len(blocks) + 1)
        members = []
        for w in site.fused:
            func = self.cached.funcs[w]
            tilings = tuple(StageTiling(StageId(w, s.number), ()) for s in func.nonempty_stages)
            members.append(FusedProducer(tilings, at, func.dims))
        stages = [site.root, *(t.stage for m in members for t in m.tilings)]
        calls = inlined_calls(self.cached, stages, set(site.inlined))
        inlined = tuple(Inlined(f, calls[f]) for f in self.cached.funcs if f in calls)
        return Kernel((Root(StageTiling(site.root, loops)),), tuple(members), inlined)


def _padded(numbers: Sequence[int | None]) -> tuple[int | None, int | None]:
    first, second = (*numbers, None, None)[:2]
    return first, second


def _usual(counts: Sequence[int]) -> int:
    return min(counts, key=lambda n: abs(n - USUAL_STEPS))


def _order(k: RegisterWindowKernel | None) -> float:
    return math.inf if k is None else float(rounded_cost(k.limited_seconds))
