"""Nested fusion (section 4.3, Listing 2): members move from the block level into the threads of their consumer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.access.regions import Range, Region, demanded_region, loop_ranges
from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.featurize.featurizer import Featurizer, SketchFeaturizer
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import KernelSketch, columns
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.types import Level, StageId
from autosched.search.space.compute_locations import ComputeLocations
from autosched.target import Target

Ints = NDArray[np.int64]

SEVERE_SHARED = 1 / 4
SEVERE_THREADS = 1 / 2
"""Shares of a block's limits from which on a group's resource use is severe; the paper gives no numbers."""


def is_severe(target: Target, shared_bytes: int, threads: int) -> bool:
    """Return whether a group's resource use is severe, so that nested fusion is tried (section 4.3).

    Args:
        target: Device limits.
        shared_bytes: Shared memory of a block, the sum of the members' buffers.
        threads: Most threads of any stage.
    """
    return (
        shared_bytes >= SEVERE_SHARED * target.shared_per_block_optin
        or threads >= SEVERE_THREADS * target.max_threads_per_block
    )


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
        """Return a group with one member at the THREAD level of its consumer; None if it stays at BLOCK."""
        without = KernelSketch(sketch.stages, tuple(s for s in sketch.locations if s.func != func), sketch.inlined)
        offered = ComputeLocations(self.featurizer).at_thread(without, func)
        if not offered:
            return None  # its readers are in several loop nests
        location = offered[0].location(func)
        assert location is not None
        model = self.featurizer.model(sketch)
        level = self._level(model, params, location.host, func)
        if level is None:
            return None
        return offered[min(level, len(offered) - 1)], self._without_columns(sketch, params, func)

    def _level(self, model: SketchFeaturizer, params: Ints, host: StageId, func: str) -> int | None:
        """Return the number of the host's serial loops that enclose a member; None if threads of the host share it.

        The member is computed just outside of the outermost overlapping loop (`max_order_reuse`). The host's loops are,
        from the outside in, threads, reductions and serial loops.
        """
        nest = model.geometry(params[None, :]).nest(host)
        nested = {s.func for s in model.sketch.locations if s.level is Level.THREAD}
        overlap = overlap_dims(self.bound, nest.stage, func, frozenset(model.sketch.inlined | nested))
        if nest.level is not Level.THREAD:
            threads = nest.threads[0]
            if any(d in overlap and threads[k] > 1 for k, d in enumerate(nest.dims)):
                return None
        if any(d in overlap for d in nest.reductions):
            return 0
        serial = nest.serial[0]
        return next((k for k, d in enumerate(nest.dims) if d in overlap and serial[k] > 1), len(nest.dims))

    def _without_columns(self, sketch: KernelSketch, params: Ints, func: str) -> Ints:
        """Return tile sizes without those of one member."""
        layout = columns(self.bound, sketch)
        parts = [params[: layout.root_serial.stop]]
        parts += [params[where] for name, where in layout.members if name != func]
        return np.concatenate(parts)
