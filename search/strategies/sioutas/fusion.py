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
"""Parts of what a block can have from which on a group's needs are severe; the paper gives no numbers."""


def is_severe(target: Target, shared_bytes: int, threads: int) -> bool:
    """Return whether a group's members need so much that nested fusion is tried (section 4.3).

    Args:
        target: Device limits.
        shared_bytes: Shared memory of a block, the sum of the members' buffers.
        threads: The most threads that any stage needs.
    """
    return (
        shared_bytes >= SEVERE_SHARED * target.shared_per_block_optin
        or threads >= SEVERE_THREADS * target.max_threads_per_block
    )


def overlap_dims(bound: BoundPipeline, consumer: BoundStage, func: str, inside: frozenset[str]) -> frozenset[str]:
    """Return the loops of a consumer across whose iterations it reads some points of a producer again.

    Measured in the middle of the consumer's domain, as boxes: what one iteration reads and what the next one reads. In
    a pure loop an iteration holds all reductions, in a reduction loop a single point.

    Args:
        bound: The pipeline.
        consumer: The stage that reads.
        func: The producer.
        inside: Funcs between the two that are computed within the iteration: inlined ones and nested ones.
    """
    f = bound.funcs[consumer.func]
    whole = {d: (int(lo), int(hi)) for d, (lo, hi) in loop_ranges(consumer, f, f.region).items()}
    middle = {d: ((lo + hi) // 2, (lo + hi) // 2) for d, (lo, hi) in whole.items()}
    reductions = {d.name for d in consumer.loops if d.reduction}
    found = set()
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
            found.add(loop.name)
    return frozenset(found)


def _read(
    bound: BoundPipeline, consumer: BoundStage, func: str, inside: frozenset[str], env: Mapping[str, Range]
) -> Region | None:
    return demanded_region(bound, [(consumer, env)], func, inside)


@dataclass
class NestedFusion:
    """Tightens where the members of one group are computed.

    Args:
        featurizer: Knows what stages read.
        target: Device limits.
    """

    featurizer: Featurizer
    target: Target

    @property
    def bound(self) -> BoundPipeline:
        """The pipeline."""
        return self.featurizer.bound

    def run(self, structure: KernelSketch, params: Ints) -> tuple[KernelSketch, Ints, list[str]]:
        """Return a group with members moved into threads where their consumer reads nothing of them twice.

        Args:
            structure: The group, all its members at BLOCK.
            params: ``int64[columns]``, its tile sizes.

        Returns:
            The group, its tile sizes, and the members that stayed at BLOCK because a legal place was missing.
        """
        kept: list[str] = []
        for spot in reversed(structure.spots):  # consumers first, so that each member's readers are settled
            found = self._place(structure, params, spot.func)
            if found is None:
                continue
            nested, fewer = found
            kernel = build_kernel(self.featurizer.model(nested), fewer)
            if kernel_violations(self.bound, kernel, self.target):
                kept.append(spot.func)
            else:
                structure, params = nested, fewer
        return structure, params, kept

    def _place(self, structure: KernelSketch, params: Ints, func: str) -> tuple[KernelSketch, Ints] | None:
        """Return a group with one member at the thread of its consumer, or None if it should stay at BLOCK."""
        without = KernelSketch(structure.stages, tuple(s for s in structure.spots if s.func != func), structure.inlined)
        offered = ComputeLocations(self.featurizer).at_thread(without, func)
        if not offered:
            return None  # its readers lie in several nests
        spot = offered[0].spot(func)
        assert spot is not None
        model = self.featurizer.model(structure)
        level = self._level(model, params, spot.host, func)
        if level is None:
            return None
        return offered[min(level, len(offered) - 1)], self._without_columns(structure, params, func)

    def _level(self, model: SketchFeaturizer, params: Ints, host: StageId, func: str) -> int | None:
        """Return how many of the host's serial loops enclose a member, or None if threads of the host share it.

        That is one level above the outermost overlap dimension in the host's order of loops: threads, reductions, then
        serial loops from the outside in (`max_order_reuse`).
        """
        nest = model.geometry(params[None, :]).nest(host)
        nested = {s.func for s in model.structure.spots if s.level is Level.THREAD}
        overlap = overlap_dims(self.bound, nest.stage, func, frozenset(model.structure.inlined | nested))
        if nest.level is not Level.THREAD:
            threads = nest.threads[0]
            if any(d in overlap and threads[k] > 1 for k, d in enumerate(nest.dims)):
                return None
        if any(d in overlap for d in nest.reductions):
            return 0
        serial = nest.serial[0]
        return next((k for k, d in enumerate(nest.dims) if d in overlap and serial[k] > 1), len(nest.dims))

    def _without_columns(self, structure: KernelSketch, params: Ints, func: str) -> Ints:
        """Return tile sizes without those of one member."""
        layout = columns(self.bound, structure)
        kept = [params[: layout.root_serial.stop]]
        kept += [params[where] for name, where in layout.members if name != func]
        return np.concatenate(kept)
