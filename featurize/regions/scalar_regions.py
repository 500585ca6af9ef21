"""Required regions of one kernel in plain integers, faster than the arrays of a batch.

The exact plan of a kernel (`autosched.schedule.planner`) covers all blocks, but needs the loops of its producers. These
loops follow from the regions of the middle block; `kernel_from_sketch` widens them where the plan requires more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.access.regions import AlignedGroups, Range, Region, demanded_region, loop_ranges
from autosched.featurize.featurizer import SketchFeaturizer
from autosched.featurize.regions.nest_geometry import middle_block
from autosched.featurize.sketch.sketch import ComputeLocation, location_storage
from autosched.schedule.types import Level, StageId

Points = tuple[int, ...]


def points_per_block(model: SketchFeaturizer, params: NDArray[np.int64]) -> dict[str, Points]:
    """Return the points of every fused producer that the middle block, or its first thread, requires.

    Args:
        model: The sketch.
        params: ``int64[columns]``.

    Returns:
        By Func, points in each of its dimensions; 1 in dimensions without a loop.
    """
    return _MiddleBlock(model, params).run()


class _MiddleBlock:
    """Region inference of producers one by one, hosts before the producers inside them."""

    def __init__(self, model: SketchFeaturizer, params: NDArray[np.int64]) -> None:
        self.bound, self.sketch, self.layout = model.bound, model.sketch, model.layout
        self.params = params
        self.dims = model.grid.dims
        self.tile, count = (row[0].tolist() for row in model.grid.blocks(params[None, :]))
        self.first = [middle_block(n) * t for n, t in zip(count, self.tile, strict=True)]
        self.low: dict[str, dict[str, int]] = {}
        self.serial: dict[str, dict[str, int]] = {}

    def run(self) -> dict[str, Points]:
        locations = self.sketch.locations
        fused = frozenset(s.func for s in locations) | self.sketch.inlined
        in_threads = frozenset(s.func for s in locations if s.level is Level.THREAD) | self.sketch.inlined
        roots = [(self.bound.stage(s.func, s.number), self._root(s)) for s in self.sketch.stages]
        grouped = {s.func: self._groups(s) for s in locations if s.aligned is not None and s.level is Level.BLOCK}
        points: dict[str, Points] = {}
        for location in locations:
            if location.level is Level.BLOCK:
                region = demanded_region(self.bound, roots, location.func, fused, grouped)
                points[location.func] = self._placed(
                    location, region, self.params[self.layout.threads_of(location.func)].tolist()
                )
        for location in reversed(locations):
            if location.level is Level.THREAD:
                host = self.bound.stage(location.host.func, location.host.number)
                consumers = [(host, self._inside(location))]
                region = demanded_region(self.bound, consumers, location.func, in_threads)
                points[location.func] = self._placed(location, region, [1] * len(self.bound.funcs[location.func].dims))
        return points

    def _root(self, stage: StageId) -> dict[str, Range]:
        """Return the ranges of a root stage's loops in the middle block, and record those of its first thread."""
        func = self.bound.funcs[stage.func]
        ranges = loop_ranges(self.bound.stage(stage.func, stage.number), func, func.region)
        self.low[stage.func] = {}
        serial = self.params[self.layout.root_serial].tolist()
        self.serial[stage.func] = dict(zip(self.dims, serial, strict=True))
        for d, start, n in zip(self.dims, self.first, self.tile, strict=True):
            if d in ranges:
                lo, hi = ranges[d]
                self.low[stage.func][d] = lo + start
                ranges[d] = lo + start, min(lo + start + n - 1, hi)
        return ranges

    def _groups(self, location: ComputeLocation) -> AlignedGroups:
        func = self.bound.funcs[location.func]
        assert location.aligned is not None
        return AlignedGroups(func.dims.index(location_storage(func, location)[-1]), *location.aligned)

    def _placed(self, location: ComputeLocation, region: Region | None, threads: Sequence[int]) -> Points:
        """Record the points of a producer's first thread; return the points that the producer covers."""
        assert region is not None
        func = self.bound.funcs[location.func]
        points = [max(hi - lo + 1, 1) for lo, hi in region]
        self.low[location.func] = {d: lo for d, (lo, _) in zip(func.dims, region, strict=True)}
        self.serial[location.func] = {d: -(-n // t) for d, n, t in zip(func.dims, points, threads, strict=True)}
        looped = {d.name for s in func.nonempty_stages for d in s.loops}
        return tuple(n if d in looped else 1 for d, n in zip(func.dims, points, strict=True))

    def _inside(self, location: ComputeLocation) -> Mapping[str, Range]:
        """Return the ranges of the host's loops that one evaluation of a thread-level producer serves."""
        host = location.host
        func = self.bound.funcs[host.func]
        stage = self.bound.stage(host.func, host.number)
        ranges = loop_ranges(stage, func, func.region)
        low, serial = self.low[host.func], self.serial[host.func]
        outer = self.dims if self.sketch.location(host.func) is None else func.dims
        for k, d in enumerate(outer):
            if d in ranges:
                start = low[d]
                ranges[d] = (
                    start,
                    start if k < location.enclosing else min(start + serial[d] - 1, max(ranges[d][1], start)),
                )
        for loop in stage.reductions if location.in_terms else ():
            ranges[loop.name] = loop.lo, loop.lo
        return ranges
