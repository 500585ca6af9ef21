"""Sliding windows in registers: rows that a thread reads at its own point alone, rotated by shifts.

Of a private producer at MAINLOOP each thread keeps the rows of its own points (Artemis, listing 2). Rows that are read
at moved points of the other dimensions, usually the centre, are in shared memory as well, which they enter when they
are first read there:

    for each step:  window[0] = window[1]; window[1] = window[2]; window[2] = the new row     each thread, own points
                    shared[own point] = window[1]
                    barrier; out[own point] = window[0] + window[2] + shared[moved points]

All stages that read a private producer have the same points of a thread: their tiles begin at one point, the lowest
of all tiles, and threads without points of a stage's tile are idle in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.conditional_range import range_where
from autosched.analysis.pipeline_memo import pipeline_memo
from autosched.errors import ScheduleError
from autosched.schedule.kernel.sliding_window import RollingBuffer
from autosched.schedule.types import FusedProducer, LoopKind

if TYPE_CHECKING:
    from autosched.schedule.plan import KernelPlan, Nest, NestLoop

MOST_UNROLLED_STEPS = 4
"""Limit of the steps that are unrolled."""
Point = Mapping[str, ix.Index]

READS = "_window_reads"
"""Name of the memo (`autosched.analysis.pipeline_memo`) of the reads of windows."""


@dataclass(frozen=True)
class RegisterWindow:
    """The rows of a private producer that each thread keeps, of its own points.

    Attributes:
        dim: The dimension along which the window slides.
        entering: The first row that enters in a step.
        rows: Rows that enter in a step.
        count: Rows in registers; the last ``rows`` of them are those that enter.
        delay: Distance from the last row that enters the registers to the last that enters shared memory.
        shared_rows: Rows in shared memory, 0 if none.
        base: Lowest point of thread 0 in the other dimensions.
        points: Points of a thread in the other dimensions.
        threads: Names of the thread loops over each of the other dimensions, of all stages with these threads.
    """

    dim: str
    entering: ix.Index
    rows: int
    count: int
    delay: int
    shared_rows: int
    base: Point
    points: Mapping[str, int]
    threads: Mapping[str, frozenset[str]]

    @property
    def elements(self) -> int:
        """Registers of a thread, in elements."""
        return self.count * prod(self.points.values())

    @property
    def first_row(self) -> ix.Index:
        """The oldest row in registers in a step."""
        first: ix.Index = ix.sub(self.entering, self.count - self.rows)
        return first

    def position(self, row: ix.Index) -> ix.Index:
        """Return the position of a row among those in registers."""
        position: ix.Index = ix.sub(row, self.first_row)
        return position

    @property
    def shared_span(self) -> tuple[int, int]:
        """Inclusive range of positions whose rows are in shared memory, empty if there are none."""
        last = self.count - 1 - self.delay
        return last - self.shared_rows + 1, last

    def element(self, at: Point) -> ix.Index | None:
        """Return the number of a point among those of its thread; None if it may belong to another thread."""
        number: ix.Index = 0
        for dim, points in self.points.items():
            offset = ix.sub(at[dim], self.base[dim])
            within = ix.mod(offset, points)
            (name, *others) = [*ix.loop_vars(ix.floordiv(offset, points)), ""]
            of_thread = ix.sub(offset, within)
            if any(others) or (name and name not in self.threads[dim]):
                return None
            thread: ix.Index = ix.Affine(((ix.loop_vars(of_thread)[name], points),), 0) if name else 0
            if not is_linear(within) or ix.sub(of_thread, thread) != 0:
                return None
            number = ix.add(ix.scale(number, points), within)
        return number

    def flat(self, position: ix.Index, element: ix.Index) -> ix.Index:
        """Return the index of an element in the registers of a thread."""
        flat: ix.Index = ix.add(ix.scale(position, prod(self.points.values())), element)
        return flat


@dataclass(frozen=True)
class Window:
    """A sliding window before its rows are divided between registers and shared memory: producer, rows and nests."""

    producer: FusedProducer
    buffer: RollingBuffer
    nests: tuple[Nest, ...]


class WindowReads:
    """The reads of MAINLOOP producers, and the dimensions of the root that theirs correspond to.

    Args:
        bound: The pipeline, with the cache reads of the kernel.
        inlined: Names of inlined Funcs.
        slides: The dimension along which rows move, of the root and of each MAINLOOP producer.
    """

    def __init__(self, bound: BoundPipeline, inlined: Collection[str], slides: Mapping[str, str]) -> None:
        self._bound = bound
        self._inlined = inlined
        self._slides = slides

    def of(self, stage: BoundStage) -> Sequence[tuple[str, Point]]:
        """Return the MAINLOOP producers that a stage reads directly or through inlined Funcs, with each read's indices.

        Indices are in the stage's loops. They are computed once for all kernels with these windows.
        """
        memo = pipeline_memo(self._bound, READS)
        key = stage.func, stage.number, frozenset(self._slides), frozenset(self._inlined)
        if key not in memo:
            memo[key] = tuple(self._reads(stage))
        reads: Sequence[tuple[str, Point]] = memo[key]
        return reads

    def _reads(self, stage: BoundStage) -> Iterator[tuple[str, Point]]:
        queue: list[tuple[BoundStage, Point]] = [(stage, {})]
        seen: set[tuple[str, ...]] = set()
        while queue:
            stage, point = queue.pop()
            for load, source in stage.loads:
                if source == stage.func or (source not in self._slides and source not in self._inlined):
                    continue
                indices = [ix.substitute(stage.index_of(i), point) for i in load.indices]
                text = (source, *map(ix.key, indices))
                if text in seen:
                    continue
                seen.add(text)
                named = dict(zip(self._bound.funcs[source].dims, indices, strict=True))
                if source in self._slides:
                    yield source, named
                else:
                    queue.append((self._bound.funcs[source].stages[0], named))

    def root_dims(self, root: str, stages: Sequence[BoundStage]) -> dict[str, dict[str, str]]:
        """Return the dimensions of the root that those of each producer correspond to, apart from that of the rows.

        Args:
            root: Name of the root.
            stages: Stages of the root and of the producers, consumers first.
        """
        dims = {root: {d: d for d in self._bound.funcs[root].dims if d != self._slides[root]}}
        for stage in stages:
            own = dims.get(stage.func, {})
            for name, indices in self.of(stage):
                if name in dims:
                    continue
                others = {d: _dim_at(i, own) for d, i in indices.items() if d != self._slides[name]}
                found = {d: own[e] for d, e in others.items() if e is not None}
                if len(found) == len(others) == len(set(found.values())):
                    dims[name] = found
        return dims


class RegisterWindowPlan:
    """The private windows of a kernel, and the nests with their threads.

    Args:
        bound: The pipeline, with the cache reads of the kernel.
        inlined: Names of inlined Funcs.
        host: The nest of the root.
        windows: All sliding windows, producers first; some are private.
        names: Names of the kernel's loops.

    Attributes:
        nests: The nests whose threads are aligned, by stage.
        windows: The private windows, by name.

    Raises:
        ScheduleError: If threads cannot be aligned, or registers would hold no row that shared memory lacks.
    """

    def __init__(
        self, bound: BoundPipeline, inlined: Collection[str], host: Nest, windows: Sequence[Window], names: Namer
    ) -> None:  # fmt: skip
        self._names = names
        self._bound = bound
        self._host = host
        self._private = {w.producer.func: w for w in windows if w.producer.private}
        self._slides = {host.stage.func: host.mainloops[0].dim, **{w.producer.func: w.buffer.dim for w in windows}}
        nests = [host, *(n for w in reversed(windows) for n in w.nests)]
        self._reads = WindowReads(bound, inlined, self._slides)
        self._root_dims = self._reads.root_dims(host.stage.func, [n.stage for n in nests])
        missing = next((name for name in self._private if name not in self._root_dims), None)
        if missing is not None:
            raise ScheduleError(f"{missing} is private: no stage reads it at its own point; keep it in shared memory")
        aligned = [n for n in nests if self._is_aligned(n)]
        self._points = self._points_of_threads(aligned)
        self._base = self._lowest_points(aligned)
        self._threads = self._thread_extents(aligned)
        self.nests = {n.id: self._aligned(n) for n in aligned}
        self.windows = {name: self._window(w) for name, w in self._private.items()}

    def _is_aligned(self, n: Nest) -> bool:
        """Whether a stage computes a private producer or reads one."""
        return n.stage.func in self._private or any(name in self._private for name, _ in self._reads.of(n.stage))

    def _dims(self, n: Nest) -> dict[str, str]:
        """Return the dimensions of the root that a nest's dimensions correspond to."""
        dims = self._root_dims.get(n.stage.func)
        if dims is None or set(dims.values()) != set(self._root_dims[self._host.stage.func]):
            raise ScheduleError(
                f"{n.id} reads a private sliding window, and its dimensions are not those of {self._host.id}; keep the "
                "window in shared memory"
            )
        return dims

    def _loops(self, n: Nest, dim: str) -> list[NestLoop]:
        """Return a nest's thread and serial loops over a dimension, apart from the steps."""
        kinds = (LoopKind.THREAD, LoopKind.SERIAL)
        return [p for p in n.loops if p.dim == dim and p.kind in kinds and p not in n.mainloops and p.extent > 1]

    def _points_of_threads(self, aligned: Sequence[Nest]) -> dict[str, int]:
        """Return the points of a thread in each dimension of the root, which all aligned nests have in common."""
        points: dict[str, int] = {}
        for n in aligned:
            moving = self._slides[n.stage.func]
            if any(p.kind is LoopKind.THREAD for p in self._loops(n, moving)):
                raise ScheduleError(
                    f"{n.id} has threads along {moving}, and private windows slide along it; give them serial loops"
                )
            for dim, root_dim in self._dims(n).items():
                loops = self._loops(n, dim)
                serial = [p for p in loops if p.kind is LoopKind.SERIAL]
                if any(p.kind is LoopKind.THREAD for p in loops[1:]):
                    raise ScheduleError(
                        f"{n.id} has a serial loop outside its thread loop over {dim}, and threads with private "
                        "windows have neighbouring points; exchange the loops"
                    )
                count = prod(p.extent for p in serial)
                if points.setdefault(root_dim, count) != count:
                    raise ScheduleError(
                        f"a thread has {count} points of {n.id} along {dim} and {points[root_dim]} of {aligned[0].id}; "
                        "stages with private windows need as many points of a thread"
                    )
        return points

    def _lowest_points(self, aligned: Sequence[Nest]) -> dict[str, ix.Index]:
        """Return the lowest point of thread 0 in each dimension of the root: the lowest of all tiles."""
        margins = dict.fromkeys(self._points, 0)
        for n in aligned:
            for dim, root_dim in self._dims(n).items():
                margin = ix.extent(n.low[dim], self._host.low[root_dim]) - 1
                margins[root_dim] = max(margins[root_dim], margin)
        return {d: ix.sub(self._host.low[d], -(-m // self._points[d]) * self._points[d]) for d, m in margins.items()}

    def _thread_extents(self, aligned: Sequence[Nest]) -> dict[str, int]:
        """Return the most threads that a nest has in each dimension of the root, in the order of their axes."""
        producer = next(iter(self._private.values())).nests[0]
        order = [self._dims(producer)[p.dim] for p in producer.thread_loops if p.extent > 1]
        order += [p.dim for p in self._host.thread_loops if p.dim in self._points]
        extents = dict.fromkeys([*order, *reversed(self._points)], 1)
        for n in aligned:
            for dim, root_dim in self._dims(n).items():
                threads = prod(p.extent for p in self._loops(n, dim) if p.kind is LoopKind.THREAD)
                extents[root_dim] = max(extents[root_dim], threads)
        for dim, root_dim in self._dims(self._host).items():
            points = ix.extent(self._base[root_dim], self._host.high[dim])
            extents[root_dim] = max(extents[root_dim], -(-points // self._points[root_dim]))
        return extents

    def _aligned(self, n: Nest) -> Nest:
        """Return a nest with the common threads."""
        dims = self._dims(n)
        threads = []
        for root_dim, extent in self._threads.items():
            dim = next(d for d, e in dims.items() if e == root_dim)
            name = next((p.name for p in n.thread_loops if p.dim == dim), None) or self._names(dim, "t")
            template = n.loops[-1] if n.loops else self._host.loops[-1]
            threads.append(
                replace(
                    template, name=name, dim=dim, kind=LoopKind.THREAD, extent=extent, stride=self._points[root_dim]
                )
            )
        outer = [p for p in n.loops if p.kind is LoopKind.BLOCK or p in n.mainloops]
        inner = [p for p in n.loops if p not in outer and p.kind is not LoopKind.THREAD]
        low = {**n.low, **{d: self._base[e] for d, e in dims.items()}}
        bounds = {d: n.low[d] for d in dims if ix.sub(n.low[d], low[d]) != 0}
        extents = {**n.extents, **{d: ix.extent(low[d], n.high[d]) for d in dims}}
        return replace(
            n, loops=(*outer, *threads, *inner), low=low, extents=extents, aligned=True,
            lower_bound={**n.lower_bound, **bounds},
        )  # fmt: skip

    def _window(self, w: Window) -> RegisterWindow:
        """Return the rows of a private window, by the points at which all nests read it."""
        name, buffer = w.producer.func, w.buffer
        dims = self._root_dims[name]
        entering = w.nests[0].low[buffer.dim]
        rows = w.nests[0].extents[buffer.dim]
        threads = {
            d: frozenset(
                p.name for n in self.nests.values() for p in n.thread_loops if self._dims(n)[p.dim] == root_dim
            )
            for d, root_dim in dims.items()
        }
        base = {d: self._base[e] for d, e in dims.items()}
        points = {d: self._points[e] for d, e in dims.items()}
        whole = RegisterWindow(buffer.dim, entering, rows, rows, 0, 0, base, points, threads)
        own, moved = _Ages(), _Ages()
        for n in self.nests.values():
            point = n.point()
            for source, indices in self._reads.of(n.stage):
                if source == name:
                    at = {d: without_clamps(ix.substitute(i, point), n) for d, i in indices.items()}
                    age = ix.sub(ix.add(entering, rows - 1), at[buffer.dim])
                    kind = moved if whole.element(at) is None else own
                    kind.add(range_inside(age, n, self._slides[n.stage.func]))
        if not own.is_empty and not moved.is_empty and moved.first == 0 and own.last <= moved.last:
            raise ScheduleError(
                f"{name} is private: all rows that threads read at their own points are read at moved points as well; "
                "keep it in shared memory"
            )
        if own.is_empty and (moved.is_empty or moved.first == 0):
            raise ScheduleError(f"{name} is private: no stage reads it at its own point; keep it in shared memory")
        delay = 0 if moved.is_empty else moved.first
        shared = 0 if moved.is_empty else max(moved.last - moved.first + 1, rows)
        oldest = max(own.last, delay + rows - 1 if shared else 0, rows - 1)
        return replace(whole, count=oldest + 1, delay=delay, shared_rows=shared)


@dataclass
class _Ages:
    """Distances of the rows that are read in a step from the newest, which entered in it."""

    first: int = -1
    last: int = -1

    @property
    def is_empty(self) -> bool:
        return self.last < 0

    def add(self, ages: tuple[int, int]) -> None:
        self.first = ages[0] if self.is_empty else min(self.first, ages[0])
        self.last = max(self.last, ages[1])


def range_inside(e: ix.Index, n: Nest, dim: str) -> tuple[int, int]:
    """Return the least and greatest value of an index over the points of a nest's region, by a dimension's bounds."""
    at = n.point()[dim]
    bounds = [ix.sub(n.high[dim], at), *(ix.sub(at, low) for low in (n.low[dim], n.lower_bound.get(dim, n.low[dim])))]
    return range_where(e, bounds)


def without_clamps(i: ix.Index, n: Nest) -> ix.Index:
    """Return an index without the clamps and remainders that change no point of a nest's region.

    Args:
        i: An index in the nest's loops.
        n: The nest, whose guard has the bounds of its region.
    """
    if is_linear(i):
        return i
    point = n.point()
    spans = {d: (ix.interval(n.lower_bound.get(d, n.low[d]))[0], ix.interval(n.high[d])[1]) for d in point}

    def range_of(a: ix.Index) -> tuple[int, int]:
        lo, hi = ix.interval(a)
        for d, at in point.items():
            distance = ix.sub(a, at)
            if isinstance(distance, int):
                return max(lo, spans[d][0] + distance), min(hi, spans[d][1] + distance)
        return lo, hi

    def choose(t: ix.Atom, args: Sequence[ix.Index]) -> ix.Index | None:
        if t.kind in ("min", "max"):
            (a, b), (first, second) = args, map(range_of, args)
            lower = a if first[1] <= second[0] else b if second[1] <= first[0] else None
            if lower is None or t.kind == "min":
                return lower
            return b if lower is a else a
        if t.kind == "mod":
            lo, hi = range_of(args[0])
            return args[0] if lo >= 0 and hi < t.payload else None
        return None

    rewritten: ix.Index = ix.rewritten(i, choose)
    return rewritten


def unrolled_steps(plan: KernelPlan) -> int:
    """Return the steps that code for GPUs unrolls: as many as a thread keeps of the rows of a point.

    So shifts become renamings. Steps of threads with several points are not unrolled, as that takes more registers.
    """
    host = plan.mainloop_nest
    windows = plan.register_windows.values()
    if host is None or not windows or host.serial_points > 1:
        return 1
    period = max(-(-w.count // w.rows) for w in windows)
    return min(period, MOST_UNROLLED_STEPS, host.mainloops[0].extent)


def shared_buffer(window: RegisterWindow, buffer: RollingBuffer) -> RollingBuffer:
    """Return the rolling buffer of the rows that a private window has in shared memory."""
    first_row = ix.sub(buffer.first_row, window.delay)
    return replace(buffer, extent=window.shared_rows, first_row=first_row)


def _dim_at(index: ix.Index, dims: Collection[str]) -> str | None:
    """Return the dimension that an index is, but for a constant and clamps; None if it is another index."""
    names = {t.name for t in ix.atoms(index) if isinstance(t, ix.LoopVar)}
    inner = [a for t in ix.atoms(index) if isinstance(t, ix.Atom) for a in t.args]
    factors = {c for a in (index, *inner) for t, c in ix.terms_of(a)}
    return names.pop() if len(names) == 1 and factors == {1} and names <= set(dims) else None


def is_linear(i: ix.Index) -> bool:
    """Whether an index has no clamp, remainder or data."""
    return not any(isinstance(t, ix.Atom) for t in ix.atoms(i))
