"""Dependence analysis of updates: the reduction loops that carry a dependence, from the accessed positions.

Two iterations depend on each other if one writes a point that the other reads or writes. Pure loops have no order, so
an update may read its own Func at other points than it writes only in other iterations of a reduction loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from autosched.errors import DSLError, InputError
from autosched.reference.access import flat_index
from autosched.reference.buffers import Array, Loop, LoopKey, extent, scope_of
from autosched.reference.stage import ReferenceStage
from autosched.reference.update import Update

_MAX_ACCESSES = 1 << 26


@dataclass(frozen=True, slots=True)
class PointAccesses:
    """The accesses of an update to its own Func, sorted by point, then by iteration.

    Attributes:
        loops: The reduction loops, and the pure loops in indices that are not a plain Var.
        iteration: Number of the iteration of ``loops``, one per access.
        writes: Whether the access writes.
        starts: Whether the access is the first of its point.
    """

    loops: list[Loop]
    iteration: Array
    writes: Array
    starts: Array

    def coordinate(self, axis: int) -> Array:
        """Return the position in loop ``axis`` of the iteration of each access."""
        lengths = [len(r) for _, r in self.loops]
        return self.iteration // prod(lengths[axis + 1 :]) % lengths[axis]


def injective_loops(update: Update) -> set[LoopKey]:
    """Return the reduction loops with an index of their own whose values differ along the loop."""
    injective: set[LoopKey] = set()
    numbering = update.stage.numbering
    for key, r in update.stage.reduction:
        for n in update.stage.indices:
            if numbering.loops[n] == {key} and update.stage.func not in numbering.sources[n]:
                (index,) = update.program(n).run(scope_of([(key, r)]))
                if len(np.unique(index)) == len(r):
                    injective.add(key)
    return injective


def serial_loops(update: Update) -> tuple[list[Loop], PointAccesses | None]:
    """Return the reduction loops that must run serially, outermost first, and the accesses if they were enumerated.

    All other loops may run at once.
    """
    stage = update.stage
    places = stage.self_accesses()
    if _one_loop_separates(update, places):
        return list(stage.reduction), None
    if any(stage.func in stage.numbering.sources[n] for place in places for n in place):
        return list(stage.reduction), None  # indices depend on values of the Func
    if any(stage.numbering.nodes[n].source is stage.func for n in stage.numbering.guarded):  # type: ignore[attr-defined]
        return list(stage.reduction), None  # where a read has no effect, its index means nothing
    if len(places) == 1 and len(injective_loops(update)) == len(stage.reduction):
        return [], None
    accesses = _accesses(update, places)
    segments = np.flatnonzero(accesses.starts)
    written = np.logical_or.reduceat(accesses.writes, segments)
    remaining = []
    for axis in range(len(stage.reduction)):
        at = accesses.coordinate(axis)
        spread = np.maximum.reduceat(at, segments) != np.minimum.reduceat(at, segments)
        if (spread & written).any():
            remaining.append(axis)
    # Different iterations of the dropped loops never access the same point, so only the order of the remaining loops
    # matters. A prefix of these must separate each two neighbouring iterations in conflict.
    conflict = ~accesses.starts[1:] & (accesses.writes[1:] | accesses.writes[:-1])
    needed = 0
    undecided = np.flatnonzero(conflict)
    for depth, axis in enumerate(remaining, start=1):
        if len(undecided) == 0:
            break
        needed = depth
        at = accesses.coordinate(axis)
        undecided = undecided[at[undecided] == at[undecided + 1]]
    if len(undecided) and _moved_axes(stage, places):
        axis = _moved_axes(stage, places)[0]
        raise DSLError(
            f"{stage.name} reads itself at other points of dimension {stage.func.dims[axis]!r} that it writes in the "
            "same step: iterations of a Var have no order",
            location=stage.definition.location,
            hint="let each such read lie in another iteration of a reduction loop",
        )
    return [stage.reduction[axis] for axis in remaining[:needed]], accesses


def _moved_axes(stage: ReferenceStage, places: Sequence[tuple[int, ...]]) -> list[int]:
    """Return the dimensions indexed by their own Var in which some self-read is at another point."""
    own_vars = [axis for axis in range(stage.func.ndim) if stage.is_own_var(axis)]
    return [axis for axis in own_vars if any(place[axis] != stage.indices[axis] for place in places)]


def _one_loop_separates(update: Update, places: Sequence[tuple[int, ...]]) -> bool:
    """Whether the only reduction loop determines the indices in some dimension, and no read is at the written index.

    Iterations in conflict then differ in that loop, whatever their indices in other dimensions.
    """
    stage = update.stage
    if len(stage.reduction) != 1 or not _moved_axes(stage, places):
        return False
    (key, r) = stage.reduction[0]
    for axis in range(stage.func.ndim):
        at = [place[axis] for place in places]
        if stage.is_own_var(axis) or any(not stage.numbering.loops[n] <= {key} for n in at):
            continue
        if any(stage.func in stage.numbering.sources[n] for n in at):
            continue
        write, *reads = (np.broadcast_to(i.reshape(-1), len(r)) for i in update.program(*at).run(scope_of([(key, r)])))
        if len(np.unique(write)) == len(r) and all((write != read).all() for read in reads):
            return True
    return False


def _accesses(update: Update, places: Sequence[tuple[int, ...]]) -> PointAccesses:
    stage = update.stage
    moved = _moved_axes(stage, places)
    mixed = {key for place in places for axis, n in enumerate(place) if axis in moved or not stage.is_own_var(axis)
             for key in stage.numbering.loops[n]}  # fmt: skip
    loops = [*stage.reduction, *(loop for loop in update.pure if loop[0] in mixed)]
    axes = [a for a in range(stage.func.ndim) if not stage.is_own_var(a) or stage.func.dims[a] in mixed]
    points = extent(loops)
    if points * len(places) > _MAX_ACCESSES:
        raise InputError(
            f"{stage.name} is too large for the interpreter: {points} iterations would have to be compared; "
            "use smaller inputs"
        )
    scope = scope_of(loops)
    shape = tuple(len(r) for _, r in loops)
    origin = tuple(update.buffer.origin[a] for a in axes)
    size = tuple(update.buffer.arrays[0].shape[a] for a in axes)
    position = np.empty((len(places), points), np.int64)
    for row, place in zip(position, places, strict=True):
        indices = update.program(*(place[a] for a in axes)).run(scope)
        row[:] = np.broadcast_to(flat_index(size, origin, tuple(indices)), shape).reshape(-1)
    key = (position * points + np.arange(points)).reshape(-1)  # sorts by point, then by iteration
    order = np.argsort(key, kind="stable")
    key = key[order]
    writes = order < points  # the first place is the written one
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))  # one access per point and iteration
    writes, key = np.logical_or.reduceat(writes, first), key[first]
    at = key // points
    return PointAccesses(loops, key % points, writes, np.concatenate([[True], at[1:] != at[:-1]]))
