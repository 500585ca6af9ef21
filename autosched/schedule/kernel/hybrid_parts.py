"""Parts of a nest that computes or reads hybrid tiles: a rolled part in shared memory, and points that are unrolled.

Registers have no run-time index. So each point of a lane whose registers it selects has a nest of its own, in which the
serial loops have one iteration. Iterations that read shared memory alone stay a loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.indices import index as ix
from autosched.schedule.kernel.hybrid_read import Point, locate_read, registers_of_points
from autosched.schedule.kernel.lane_layout import HybridStorage, LaneOrder
from autosched.schedule.kernel.nest_ranges import without_clamps
from autosched.schedule.kernel.window_reads import WindowReads
from autosched.schedule.plan import KernelPlan, Nest, NestLoop
from autosched.schedule.types import LoopKind


@dataclass(frozen=True)
class NestPart:
    """A part of the nests of a group.

    Attributes:
        nests: The group's nests, restricted to the part.
        register: Of a producer's points in registers: the register.
        is_unrolled: Whether it is one point of each lane.
    """

    nests: tuple[Nest, ...]
    register: int | None = None
    is_unrolled: bool = False


class HybridParts:
    """Divides the nests of a kernel with hybrid tiles.

    Args:
        bound: The pipeline, with the cache reads of the kernel.
        inlined: Names of inlined Funcs.
        storages: The hybrid tiles, by producer.
        order: Order of the threads of the warp.
    """

    def __init__(
        self, bound: BoundPipeline, inlined: frozenset[str], storages: Mapping[str, HybridStorage],
        order: LaneOrder,
    ) -> None:  # fmt: skip
        self.storages = storages
        self.order = order
        self._reads = WindowReads(bound, inlined, dict.fromkeys(storages, ""))

    @classmethod
    def of(cls, plan: KernelPlan) -> HybridParts:
        """Return the parts of a plan."""
        return cls(plan.bound, plan.inlined, plan.hybrid_tiles, lane_order(plan))

    def reads(self, n: Nest) -> list[tuple[str, Point]]:
        """Return the hybrid tiles that a nest reads, with the points in its loops."""
        return [(name, at) for name, at in self.symbolic_reads(n.stage) if name != n.stage.func]

    def symbolic_reads(self, stage: BoundStage) -> Sequence[tuple[str, Point]]:
        """Return the hybrid tiles that a stage reads, with the points in its own variables."""
        return self._reads.of(stage)

    def is_involved(self, group: Sequence[Nest]) -> bool:
        """Whether a group computes or reads a hybrid tile."""
        return any(n.stage.func in self.storages or self.reads(n) for n in group)

    def divide(self, group: Sequence[Nest]) -> list[NestPart]:
        """Return the parts of a group that computes or reads a hybrid tile, in order of execution."""
        storage = self.storages.get(group[0].stage.func)
        if storage is None:
            return [*self._consumer_parts(group)]
        parts: list[NestPart] = []
        if storage.shared_extent:
            parts += self._consumer_parts([_shared_part(n, storage) for n in group])
        for low, register in registers_of_points(storage):
            nests = [_register_part(n, storage, low) for n in group]
            if all(n is not None for n in nests):
                parts.append(NestPart(tuple(n for n in nests if n is not None), register, is_unrolled=True))
        return parts

    def _consumer_parts(self, group: Sequence[Nest]) -> Iterator[NestPart]:
        """Yield the iterations that read shared memory alone as one part, and each point after these."""
        first = group[0]
        if not any(self.reads(n) for n in group):
            yield NestPart(tuple(group))
            return
        loops = [p for p in first.inner if p.kind is LoopKind.SERIAL and p.extent > 1]
        rolled, count = None, 0
        for loop in loops:
            if loop == _outer_loop(first, loop.dim):
                iterations = self._shared_iterations(group, loop)
                if iterations > count:
                    rolled, count = loop, iterations
        if rolled is not None:
            yield NestPart(tuple(_shortened(n, rolled, count) for n in group))
        ranges = [range(count if p == rolled else 0, p.extent) for p in loops]
        for values in product(*ranges):
            at = {(p.dim, p.stride): v for p, v in zip(loops, values, strict=True)}
            nests = [at_iteration(n, at) for n in group]
            if all(n is not None for n in nests):
                yield NestPart(tuple(n for n in nests if n is not None), is_unrolled=True)

    def _shared_iterations(self, group: Sequence[Nest], loop: NestLoop) -> int:
        """Return the number of first iterations of a loop in which no lane reads a register."""
        for v in range(loop.extent):
            nests = [at_iteration(n, {(loop.dim, loop.stride): v}) for n in group]
            if any(n is not None and self._reads_registers(n) for n in nests):
                return v
        return loop.extent

    def _reads_registers(self, n: Nest) -> bool:
        """Whether a lane may read a register in some iteration of a nest."""
        point = n.point()
        for name, at in self.reads(n):
            storage = self.storages[name]
            index = without_clamps(ix.substitute(at[storage.split], point), n)
            if ix.interval(ix.sub(index, storage.split_layout.base))[1] >= 0:
                return True
        return False

    def unrolled_terms(self, n: Nest) -> list[Nest]:
        """Return a nest for each iteration of the reduction loops that change the registers it reads, in order."""
        names = {name for _, at in self.reads(n) for i in at.values() for name in ix.loop_vars(i)}
        loops = [p for p in n.inner if p.kind is LoopKind.REDUCTION and p.dim in names and p.extent > 1]
        nests = []
        for values in product(*(range(p.extent) for p in loops)):
            term = at_iteration(n, {(p.dim, p.stride): v for p, v in zip(loops, values, strict=True)})
            if term is not None:
                nests.append(term)
        return nests

    def undetermined(self, n: Nest) -> Iterator[str]:
        """Yield the hybrid tiles of which a nest of one point reads elements at no constant distance."""
        for term in self.unrolled_terms(n):
            point = term.point()
            for name, at in self.reads(term):
                here = {d: ix.substitute(i, point) for d, i in at.items()}
                if locate_read(self.storages[name], here, term, self.order) is None:
                    yield name


def lane_order(plan: KernelPlan) -> LaneOrder:
    """Return the order of the threads of a kernel of one warp, or of a warp with a tile of its own."""
    return LaneOrder(plan.block, plan.kernel.linear_threads)


def at_iteration(n: Nest, iteration: Mapping[tuple[str, int], int]) -> Nest | None:
    """Return a nest at given iterations of loops, by dimension and stride; None if it has no points there."""
    low, extents = dict(n.low), dict(n.extents)
    loops = []
    for p in n.loops:
        value = iteration.get((p.dim, p.stride)) if p.extent > 1 and p in n.inner else None
        loops.append(p if value is None else replace(p, extent=1))
        if value is not None:
            low[p.dim] = ix.add(low[p.dim], value * p.stride)
            extents[p.dim] -= value * p.stride
    for dim in {dim for dim, _ in iteration}:
        span = 1 + sum(p.stride * (p.extent - 1) for p in loops if p.dim == dim and p.kind is not LoopKind.BLOCK)
        extents[dim] = min(extents[dim], span)
    return replace(n, loops=tuple(loops), low=low, extents=extents) if min(extents.values(), default=1) > 0 else None


def _shortened(n: Nest, loop: NestLoop, count: int) -> Nest:
    """Return a nest with the first iterations of a loop, the outermost one over its dimension."""
    loops = tuple(
        replace(p, extent=count) if (p.dim, p.stride, p.kind) == (loop.dim, loop.stride, loop.kind) else p
        for p in n.loops
    )
    extents = {**n.extents, loop.dim: min(n.extents[loop.dim], count * loop.stride)}
    return replace(n, loops=loops, extents=extents)


def _shared_part(n: Nest, storage: HybridStorage) -> Nest:
    """Return the part of a producer's nest whose points are in shared memory."""
    dim, layout = storage.split, storage.split_layout
    end = ix.sub(layout.base, 1)
    outer = _outer_loop(n, dim)
    steps = -(-storage.shared_extent // layout.step_points)
    loops = tuple(replace(p, extent=steps) if p == outer else p for p in n.loops)
    return replace(
        n, loops=loops, high={**n.high, dim: ix.minimum(n.high[dim], end)},
        extents={**n.extents, dim: storage.shared_extent},
    )  # fmt: skip


def _register_part(n: Nest, storage: HybridStorage, low: Point) -> Nest | None:
    """Return the nest of a point of each lane in registers; None if it has no points."""
    bounds = dict(n.lower_bound)
    extents = dict(n.extents)
    loops = []
    for p in n.loops:
        is_serial = p in n.inner and p.kind is LoopKind.SERIAL
        loops.append(replace(p, extent=1) if is_serial else p)
    for dim, first in low.items():
        layout = storage.layout(dim)
        extents[dim] = min(layout.points * (layout.lanes - 1) + 1, ix.extent(first, n.high[dim]))
        if ix.extent(first, ix.sub(n.low[dim], 1)) > 0:
            bounds[dim] = n.low[dim]
        if extents[dim] == 0:
            return None
    return replace(n, loops=tuple(loops), low={**n.low, **low}, extents=extents, lower_bound=bounds)


def _outer_loop(n: Nest, dim: str) -> NestLoop | None:
    """Return the outermost loop over a dimension if it is serial, None otherwise."""
    loops = [p for p in n.loops if p.dim == dim and p.extent > 1 and p.kind is not LoopKind.BLOCK]
    return loops[0] if loops and loops[0].kind is LoopKind.SERIAL else None


def unrolled_points(group: Sequence[Nest]) -> int:
    """Return the points of a lane that are unrolled if all serial loops are."""
    return prod(p.extent for p in group[0].inner if p.kind is LoopKind.SERIAL)
