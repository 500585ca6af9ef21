"""Windows that slide along a dimension of a kernel's root while its blocks walk that dimension.

In step t a block computes the next rows of its root, and of each MAINLOOP Member those rows that come in:

row of the root       first of the block + rows * t                        (t from 0)
newest row of Member  that + ahead, as far as what reads it in step t needs
rows that are kept    from the oldest that is read in step t to the newest, in whole steps

What comes in takes the place of what nobody reads any more. Members begin in steps before 0, so that all they are
read at is there when their readers begin; rows before their tile are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autosched.analysis.access.regions import Range, Region, demanded_region, loop_ranges
from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.indices import index as ix
from autosched.errors import ScheduleError
from autosched.schedule.types import FusedProducer, Kernel, Level

if TYPE_CHECKING:
    from autosched.schedule.plan import Nest


@dataclass(frozen=True)
class RollingBuffer:
    """What a block keeps of a MAINLOOP Member, and what of it is computed in a step.

    Attributes:
        dim: The dimension along which it slides.
        region: The points that come in, in step t.
        floor: The first row that is needed in any step.
        first: The first row that comes in at all, needed or not; rows take their places from there on.
        extent: Rows that are kept.
        starts: The step in which its first rows come in, 0 or before.
    """

    dim: str
    region: Region
    floor: ix.Index
    first: ix.Index
    extent: int
    starts: int


@dataclass(frozen=True)
class _Reader:
    """A stage that reads Members in each step, with the ranges of its loops in step t."""

    stage: BoundStage
    ranges: Mapping[str, Range]
    step: ix.Index


class SlidingWindowPlan:
    """Works out the windows of a kernel.

    Args:
        bound: The pipeline, with the copies of sources that the kernel makes.
        kernel: Its schedule; its root walks one dimension in steps.
        inlined: Names of inlined Funcs.
        host: The nest of the root.
        tile: What a block needs of each Func in all steps together.

    Attributes:
        windows: The MAINLOOP Members, producers first, each with its window.

    Raises:
        ScheduleError: If what a step needs of a Member does not move along one of its dimensions.
    """

    def __init__(
        self, bound: BoundPipeline, kernel: Kernel, inlined: Collection[str], host: Nest, tile: Mapping[str, Region]
    ) -> None:
        self._bound = bound
        self._kernel = kernel
        self._tile = tile
        self._through = {m.func for m in kernel.fused if m.at.level is Level.THREAD} | set(inlined)
        self._walked = host.stream_loops[0]
        inside = self._through | {m.func for m in kernel.fused}
        self._moving = dims_moving_with(bound, host.stage, self._walked.dim, inside)
        self._begin = host.low[self._walked.dim]
        depth = 1 + host.loops.index(self._walked)
        self._readers = [_Reader(host.stage, host.ranges_at(depth), self._step(0))]
        members = [m for m in kernel.fused if m.at.level is Level.MAINLOOP]
        found: list[tuple[FusedProducer, RollingBuffer]] = []
        for m in sorted(members, key=lambda m: -bound.position[m.func]):
            window = self._window(m)
            found.append((m, window))
            self._readers += self._stages(m, window)
        self.windows = tuple(found[::-1])

    @property
    def warm_up(self) -> int:
        """Steps before the first of the root."""
        return -min((w.starts for _, w in self.windows), default=0)

    def _step(self, starts: int) -> ix.Index:
        """Return the step t, from the one in which something starts."""
        t: ix.Index = ix.var(self._walked.name, starts, self._walked.extent - 1)
        return t

    def _row(self, step: ix.Index) -> ix.Index:
        """Return the first row that a block computes of the root in a step."""
        row: ix.Index = ix.add(self._begin, ix.scale(step, self._walked.stride))
        return row

    def _window(self, m: FusedProducer) -> RollingBuffer:
        """Return the window of a Member, whose readers are all known."""
        bound, rows = self._bound, self._walked.stride
        demands = [(r, self._demand(r, m.func)) for r in self._readers]
        needs = [(r, region) for r, region in demands if region is not None]
        position = self._along(m.func)
        later = max(ix.extent(self._row(r.step), region[position][1]) - 1 for r, region in needs)
        later += rows if m.buffers > 1 else 0  # the rows of the next step, meanwhile
        kept = max(ix.extent(region[position][0], ix.add(self._row(r.step), later)) for r, region in needs)
        floor, last = self._tile[m.func][position]
        before = ix.extent(floor, ix.add(self._begin, later - rows + 1)) - 1
        starts = -max(before, 0) // rows
        low = ix.add(self._row(self._step(starts)), later - rows + 1)
        coming = low, ix.minimum(ix.add(low, rows - 1), last)
        region = (*self._tile[m.func][:position], coming, *self._tile[m.func][position + 1 :])
        first = ix.add(self._begin, starts * rows + later - rows + 1)
        dim = bound.funcs[m.func].dims[position]
        return RollingBuffer(dim, region, floor, first, -(-kept // rows) * rows, starts)

    def _demand(self, reader: _Reader, name: str) -> Region | None:
        """Return what one stage reads of a Member in step t, itself or through Funcs inside it."""
        return demanded_region(self._bound, [(reader.stage, reader.ranges)], name, self._through)

    def _along(self, name: str) -> int:
        """Return the position of the dimension of a Member that moves with the steps."""
        dims = self._bound.funcs[name].dims
        moving = self._moving.get(name, frozenset())
        if len(moving) != 1:
            which = " and ".join(d for d in dims if d in moving) or "no dimension"
            raise ScheduleError(
                f"{name} cannot slide along {self._walked.dim}: the rows that a step needs move along {which}, "
                "and must move along one dimension; compute it at BLOCK or THREAD"
            )
        return dims.index(next(iter(moving)))

    def _stages(self, m: FusedProducer, window: RollingBuffer) -> list[_Reader]:
        """Return a Member's stages as readers of others: what they compute in a step, without what is left out."""
        func = self._bound.funcs[m.func]
        k = func.dims.index(window.dim)
        low, high = window.region[k]
        region = (*window.region[:k], (ix.maximum(low, window.floor), high), *window.region[k + 1 :])
        step = self._step(window.starts)
        return [_Reader(s, loop_ranges(s, func, region), step) for s in func.nonempty_stages]


def dims_moving_with(bound: BoundPipeline, host: BoundStage, dim: str, inside: Set[str]) -> dict[str, frozenset[str]]:
    """Return along which dimensions that moves which a stage needs while it walks one of its own.

    Args:
        bound: The pipeline.
        host: The stage.
        dim: What it walks.
        inside: Funcs whose own demand is passed on to their producers.

    Returns:
        Dimensions of every Func that is read, directly or through Funcs ``inside``.
    """
    found: dict[str, frozenset[str]] = {}

    def add(stage: BoundStage, moved: Set[str]) -> None:
        for f in stage.footprints:
            if f.source in bound.funcs and f.source != stage.func:
                dims = zip(bound.funcs[f.source].dims, f.loop_vars, strict=True)
                moving = frozenset(d for d, names in dims if names & moved)
                found[f.source] = found.get(f.source, frozenset()) | moving

    add(host, {dim})
    for name in sorted(inside, key=lambda n: -bound.position[n]):
        for stage in bound.funcs[name].stages if name in found else ():
            add(stage, found[name])
    return found
