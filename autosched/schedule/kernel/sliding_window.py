"""Sliding windows: MAINLOOP producers keep rolling buffers while a block iterates along a dimension of its root.

In step t a block computes the next rows of its root, and of each MAINLOOP producer the rows that enter its buffer:

row of the root         first row of the block + rows * t                 (t from 0)
newest row of producer  row of the root + offset, as far as its readers need in step t
rows in the buffer      from the oldest row that is read in step t to the newest, in whole steps

Entering rows replace rows without further readers. Producers start in prologue steps (t < 0), so that the buffers are
full when their readers start; rows before a producer's tile are skipped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autosched.analysis.access.regions import Range, Region, demanded_region, loop_ranges
from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.conditional_range import range_where
from autosched.errors import ScheduleError
from autosched.schedule.types import FusedProducer, Kernel, Level

if TYPE_CHECKING:
    from autosched.schedule.plan import Nest


@dataclass(frozen=True)
class RollingBuffer:
    """The rows of a MAINLOOP producer that a block keeps in shared memory.

    Attributes:
        dim: The dimension along which the window slides.
        region: The points that enter in step t.
        lower_bound: The first row that any step needs.
        first_row: The first row that enters, needed or not; it has position 0 in the buffer.
        extent: Number of rows in the buffer.
        first_step: The step in which the first rows enter, 0 or negative.
    """

    dim: str
    region: Region
    lower_bound: ix.Index
    first_row: ix.Index
    extent: int
    first_step: int


@dataclass(frozen=True)
class _Reader:
    """A stage that reads MAINLOOP producers, with the ranges of its loops in step t.

    Attributes:
        stage: The stage.
        ranges: The ranges.
        step: The step.
        computed: Indices that are not negative in steps in which it has rows; rows before its tile are skipped.
    """

    stage: BoundStage
    ranges: Mapping[str, Range]
    step: ix.Index
    computed: tuple[ix.Index, ...] = ()


class SlidingWindowPlan:
    """The rolling buffers of a kernel.

    Args:
        bound: The pipeline, with the cache reads of the kernel.
        kernel: Its schedule, with a serial loop over one dimension of its root.
        inlined: Names of inlined Funcs.
        host: The nest of the root.
        tile: The region of each Func that a block needs in all its steps.

    Attributes:
        windows: The MAINLOOP producers, producers first, each with its rolling buffer.

    Raises:
        ScheduleError: If the region that a step needs of a producer does not move along exactly one dimension.
    """

    def __init__(
        self, bound: BoundPipeline, kernel: Kernel, inlined: Collection[str], host: Nest, tile: Mapping[str, Region]
    ) -> None:
        self._bound = bound
        self._kernel = kernel
        self._tile = tile
        self._through = {m.func for m in kernel.fused if m.at.level is Level.THREAD} | set(inlined)
        self._loop = host.mainloops[0]
        inside = self._through | {m.func for m in kernel.fused}
        self._moving = dims_moving_with(bound, host.stage, self._loop.dim, inside)
        self._begin = host.low[self._loop.dim]
        depth = 1 + host.loops.index(self._loop)
        self._readers = [_Reader(host.stage, host.ranges_at(depth), self._step(0))]
        producers = [m for m in kernel.fused if m.at.level is Level.MAINLOOP]
        windows: list[tuple[FusedProducer, RollingBuffer]] = []
        for m in sorted(producers, key=lambda m: -bound.position[m.func]):
            buffer = self._buffer(m)
            windows.append((m, buffer))
            self._readers += self._stages(m, buffer)
        self.windows = tuple(windows[::-1])

    @property
    def prologue_steps(self) -> int:
        """Number of prologue steps, before step 0 of the root."""
        return -min((b.first_step for _, b in self.windows), default=0)

    def _step(self, first: int) -> ix.Index:
        """Return the step t as a variable that starts at ``first``."""
        t: ix.Index = ix.var(self._loop.name, first, self._loop.extent - 1)
        return t

    def _row(self, step: ix.Index) -> ix.Index:
        """Return the first row of the root that a block computes in a step."""
        row: ix.Index = ix.add(self._begin, ix.scale(step, self._loop.stride))
        return row

    def _buffer(self, m: FusedProducer) -> RollingBuffer:
        """Return the rolling buffer of a producer; all its readers must be in ``_readers``."""
        bound, rows = self._bound, self._loop.stride
        regions = [(r, self._required_region(r, m.func)) for r in self._readers]
        needs = [(r, region) for r, region in regions if region is not None]
        position = self._window_dim(m.func)
        offset = max(_largest(self._row(r.step), region[position][1], r) - 1 for r, region in needs)
        offset += rows if m.buffers > 1 else 0  # double buffering loads the rows of the next step
        live = max(_largest(region[position][0], ix.add(self._row(r.step), offset), r) for r, region in needs)
        lower_bound, last = self._tile[m.func][position]
        before = ix.extent(lower_bound, ix.add(self._begin, offset - rows + 1)) - 1
        first_step = -max(before, 0) // rows
        low = ix.add(self._row(self._step(first_step)), offset - rows + 1)
        entering = low, ix.minimum(ix.add(low, rows - 1), last)
        region = (*self._tile[m.func][:position], entering, *self._tile[m.func][position + 1 :])
        first_row = ix.add(self._begin, first_step * rows + offset - rows + 1)
        dim = bound.funcs[m.func].dims[position]
        return RollingBuffer(dim, region, lower_bound, first_row, -(-live // rows) * rows, first_step)

    def _required_region(self, reader: _Reader, name: str) -> Region | None:
        """Return the region of a producer that a stage reads in step t, directly or through Funcs inside the stage."""
        return demanded_region(self._bound, [(reader.stage, reader.ranges)], name, self._through)

    def _window_dim(self, name: str) -> int:
        """Return the position of the dimension of a producer that moves with the steps."""
        dims = self._bound.funcs[name].dims
        moving = self._moving.get(name, frozenset())
        if len(moving) != 1:
            which = " and ".join(d for d in dims if d in moving) or "no dimension"
            raise ScheduleError(
                f"{name} cannot slide along {self._loop.dim}: the rows that a step needs move along {which}, "
                "and must move along one dimension; compute it at BLOCK or THREAD"
            )
        return dims.index(next(iter(moving)))

    def _stages(self, m: FusedProducer, buffer: RollingBuffer) -> list[_Reader]:
        """Return the stages of a producer as readers, over the rows that they compute in a step."""
        func = self._bound.funcs[m.func]
        k = func.dims.index(buffer.dim)
        low, high = buffer.region[k]
        region = (*buffer.region[:k], (ix.maximum(low, buffer.lower_bound), high), *buffer.region[k + 1 :])
        step = self._step(buffer.first_step)
        computed = (ix.sub(high, buffer.lower_bound),)
        return [_Reader(s, loop_ranges(s, func, region), step, computed) for s in func.nonempty_stages]


def _largest(lo: ix.Index, hi: ix.Index, reader: _Reader) -> int:
    """Return the largest ``hi - lo + 1`` over the steps in which a reader has rows, at least 0."""
    if not reader.computed:
        extent: int = ix.extent(lo, hi)
        return extent
    return max(range_where(ix.add(ix.sub(hi, lo), 1), reader.computed)[1], 0)


def dims_moving_with(bound: BoundPipeline, host: BoundStage, dim: str, inside: Set[str]) -> dict[str, frozenset[str]]:
    """Return the dimensions along which required regions move with a loop over a dimension of a stage.

    Args:
        bound: The pipeline.
        host: The stage.
        dim: The dimension of the loop.
        inside: Funcs whose own reads count as well.

    Returns:
        The moving dimensions of every Func that is read, directly or through Funcs ``inside``.
    """
    moving: dict[str, frozenset[str]] = {}

    def add(stage: BoundStage, moved: Set[str]) -> None:
        for f in stage.footprints:
            if f.source in bound.funcs and f.source != stage.func:
                dims = zip(bound.funcs[f.source].dims, f.loop_vars, strict=True)
                read = frozenset(d for d, names in dims if names & moved)
                moving[f.source] = moving.get(f.source, frozenset()) | read

    add(host, {dim})
    for name in sorted(inside, key=lambda n: -bound.position[n]):
        for stage in bound.funcs[name].stages if name in moving else ():
            add(stage, moving[name])
    return moving
