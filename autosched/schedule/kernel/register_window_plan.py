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

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import prod

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.errors import ScheduleError
from autosched.schedule.kernel.nest_ranges import range_inside, without_clamps
from autosched.schedule.kernel.register_window import RegisterWindow
from autosched.schedule.kernel.sliding_window import RollingBuffer
from autosched.schedule.kernel.window_reads import WindowReads
from autosched.schedule.plan import KernelPlan, Nest, NestLoop
from autosched.schedule.types import FusedProducer, LoopKind

MOST_UNROLLED_STEPS = 4
"""Limit of the steps that are unrolled."""


@dataclass(frozen=True)
class Window:
    """A sliding window before its rows are divided between registers and shared memory: producer, rows and nests."""

    producer: FusedProducer
    buffer: RollingBuffer
    nests: tuple[Nest, ...]


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
