"""Nested fusion (section 4.3, Listing 2): members move from the block level into the threads of their consumer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.access.regions import Range, Region, demanded_region, loop_ranges
from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.featurize.featurizer import Featurizer, SketchFeaturizer
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch, columns
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.types import Level
from autosched.search.space.compute_locations import ComputeLocations
from autosched.target import Target

Ints = NDArray[np.int64]

SEVERE_SHARED_BYTES = 32 * 1024
SEVERE_OCCUPANCY = 0.3
SEVERE_THREADS = 900
"""Limits beyond which a group's resource use is severe. Section 4.3 names the resources; the numbers are those of
`generate_cpu_schedule` in HalideAutoGPU."""


def is_severe(shared_bytes: int, occupancy: float, active_threads: int) -> bool:
    """Return whether a group's resource use is severe, so that nested fusion is tried (section 4.3).

    Args:
        shared_bytes: Shared memory of a block, the sum of the members' buffers.
        occupancy: Least occupancy of any stage.
        active_threads: Least number of active threads of any stage.
    """
    return shared_bytes > SEVERE_SHARED_BYTES or occupancy < SEVERE_OCCUPANCY or active_threads > SEVERE_THREADS


def overlap_dims(bound: BoundPipeline, consumer: BoundStage, func: str, inside: frozenset[str]) -> frozenset[str]:
    """Return the loops of a consumer whose consecutive iterations read overlapping regions of a producer.

    Regions are boxes in the middle of the consumer's domain. One iteration of a pure loop includes all reduction
    loops, one of a reduction loop a single point.

    Args:
        bound: The pipeline.
        consumer: The reading stage.
        func: The producer.
        inside: Funcs between both that are computed within the iteration: inlined and nested ones.
    """
    f = bound.funcs[consumer.func]
    whole = {d: (int(lo), int(hi)) for d, (lo, hi) in loop_ranges(consumer, f, f.region).items()}
    middle = {d: ((lo + hi) // 2, (lo + hi) // 2) for d, (lo, hi) in whole.items()}
    reductions = {d.name for d in consumer.loops if d.reduction}
    overlapping = set()
    for loop in consumer.loops:
        lo, hi = whole[loop.name]
        if hi <= lo:
            continue
        here = dict(middle) if loop.reduction else {d: whole[d] if d in reductions else p for d, p in middle.items()}
        start = min(middle[loop.name][0], hi - 1)
        first = _read(bound, consumer, func, inside, {**here, loop.name: (start, start)})
        second = _read(bound, consumer, func, inside, {**here, loop.name: (start + 1, start + 1)})
        if first is None or second is None:
            continue
        if all(a <= d and c <= b for (a, b), (c, d) in zip(first, second, strict=True)):
            overlapping.add(loop.name)
    return frozenset(overlapping)


def _read(
    bound: BoundPipeline, consumer: BoundStage, func: str, inside: frozenset[str], env: Mapping[str, Range]
) -> Region | None:
    return demanded_region(bound, [(consumer, env)], func, inside)


@dataclass
class NestedFusion:
    """Moves the members of one group to inner compute locations.

    Args:
        featurizer: Featurizer of the pipeline.
        target: Device limits.
    """

    featurizer: Featurizer
    target: Target

    @property
    def bound(self) -> BoundPipeline:
        """The pipeline."""
        return self.featurizer.bound

    def run(self, sketch: KernelSketch, params: Ints) -> tuple[KernelSketch, Ints, list[str]]:
        """Return a group with members moved into threads if their consumer's iterations read disjoint regions.

        Args:
            sketch: The group, all its members at BLOCK.
            params: ``int64[columns]``, its tile sizes.

        Returns:
            The group, its tile sizes, and the members that stay at BLOCK because no location is legal.
        """
        at_block: list[str] = []
        for location in reversed(sketch.locations):  # consumers first: a member's location depends on theirs
            nested = self._place(sketch, params, location.func)
            if nested is None:
                continue
            kernel = build_kernel(self.featurizer.model(nested[0]), nested[1])
            if kernel_violations(self.bound, kernel, self.target):
                at_block.append(location.func)
            else:
                sketch, params = nested
        return sketch, params, at_block

    def _place(self, sketch: KernelSketch, params: Ints, func: str) -> tuple[KernelSketch, Ints] | None:
        """Return a group with one member at the THREAD level of a consumer; None if it stays at BLOCK."""
        without = KernelSketch(sketch.stages, tuple(s for s in sketch.locations if s.func != func), sketch.inlined)
        offered = ComputeLocations(self.featurizer).at_thread(without, func)
        if not offered:
            return None  # its readers are in several loop nests
        places = [place for nested in offered if (place := nested.location(func)) is not None]
        chosen = self._location(self.featurizer.model(sketch), params, func, places)
        if chosen is None:
            return None
        locations = tuple(chosen if s.func == func else s for s in sketch.locations)
        nested = KernelSketch(sketch.stages, locations, sketch.inlined)
        return nested, self._without_columns(sketch, params, func)

    def _location(
        self, model: SketchFeaturizer, params: Ints, func: str, offered: Sequence[ComputeLocation]
    ) -> ComputeLocation | None:
        """Return a member's location just outside of the outermost overlapping loop (`max_order_reuse`, section 4.3).

        The loops are those around the innermost location inside a block: threads, then reductions and serial loops of
        each host, the outermost host first. An overlapping loop of any of these hosts, not only of the reader's, would
        repeat the member's computation, and nested fusion must not add redundant computation.

        Args:
            model: The group.
            params: ``int64[columns]``, its tile sizes.
            func: The member.
            offered: Its locations in the innermost host that computes all its readers, the outermost first.

        Returns:
            The location; None if neighbouring threads read overlapping regions.
        """
        sketch, geometry = model.sketch, model.geometry(params[None, :])
        nested = {s.func for s in sketch.locations if s.level is Level.THREAD}
        inside = frozenset(sketch.inlined | nested)
        for place in self._enclosing_places(sketch, offered[-1]):
            nest = geometry.nest(place.host)
            overlap = overlap_dims(self.bound, nest.stage, func, inside)
            if nest.level is not Level.THREAD:
                threads = nest.threads[0]
                if any(d in overlap and threads[k] > 1 for k, d in enumerate(nest.dims)):
                    return None
            outside = ComputeLocation(func, Level.THREAD, place.host)
            if place.in_terms and any(d in overlap for d in nest.reductions):
                return outside
            serial = nest.serial[0]
            repeated = (k for k in range(place.enclosing) if nest.dims[k] in overlap and serial[k] > 1)
            first = next(repeated, None)
            if first is not None:
                each_term = outside._replace(each_term=True)  # between reductions and serial loops
                return each_term if first == 0 and each_term in offered else outside._replace(enclosing=first)
        return offered[-1]

    def _enclosing_places(self, sketch: KernelSketch, innermost: ComputeLocation) -> list[ComputeLocation]:
        """Return a location and, for each host around it inside its thread, that host's, outermost first."""
        places = [innermost]
        while (host := sketch.location(places[-1].host.func)) is not None and host.level is Level.THREAD:
            places.append(host)
        return places[::-1]

    def _without_columns(self, sketch: KernelSketch, params: Ints, func: str) -> Ints:
        """Return tile sizes without those of one member."""
        layout = columns(self.bound, sketch)
        parts = [params[: layout.root_serial.stop]]
        parts += [params[where] for name, where in layout.members if name != func]
        return np.concatenate(parts)
