"""Which reduction loops of an update carry a dependence: decided on the positions it really touches.

Two iterations depend on each other if one writes a point the other writes or reads. Pure loops have no order, so an
update may read its own Func beside the pure point it writes only where another iteration of a reduction loop writes.
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

_MAX_TOUCHED = 1 << 26


@dataclass(frozen=True, slots=True)
class Touched:
    """Every point an update touches, by iteration, sorted by point and then by iteration.

    ``loops`` are the reduction loops and those pure loops that an index mixes with others; ``iteration`` counts through
    all of them, ``starts`` marks where a new point begins, ``writes`` the entries that write.
    """

    loops: list[Loop]
    iteration: Array
    writes: Array
    starts: Array

    def coordinate(self, axis: int) -> Array:
        """Return, for each entry, the position of its iteration in loop ``axis``."""
        lengths = [len(r) for _, r in self.loops]
        return self.iteration // prod(lengths[axis + 1 :]) % lengths[axis]


def injective_loops(update: Update) -> set[LoopKey]:
    """Return reduction loops that are told apart by an index of their own: its values differ along the loop."""
    found: set[LoopKey] = set()
    numbering = update.stage.numbering
    for key, r in update.stage.reduction:
        for n in update.stage.indices:
            if numbering.loops[n] == {key} and update.stage.func not in numbering.sources[n]:
                (index,) = update.program(n).run(scope_of([(key, r)]))
                if len(np.unique(index)) == len(r):
                    found.add(key)
    return found


def serial_loops(update: Update) -> tuple[list[Loop], Touched | None]:
    """Return the reduction loops to be walked one iteration after another, outermost first; the others may run at once.

    Also returns what the decision was based on, if points had to be looked at.
    """
    stage = update.stage
    places = stage.own_accesses()
    if _rows_tell_apart(update, places):
        return list(stage.reduction), None
    if any(stage.func in stage.numbering.sources[n] for place in places for n in place):
        return list(stage.reduction), None  # where it goes depends on what it computes
    if len(places) == 1 and len(injective_loops(update)) == len(stage.reduction):
        return [], None
    touched = _touched(update, places)
    segments = np.flatnonzero(touched.starts)
    written = np.logical_or.reduceat(touched.writes, segments)
    remaining = []
    for axis in range(len(stage.reduction)):
        at = touched.coordinate(axis)
        spread = np.maximum.reduceat(at, segments) != np.minimum.reduceat(at, segments)
        if (spread & written).any():
            remaining.append(axis)
    # Points of one loop iteration never meet those of another in the loops left out, so that the order of the
    # remaining ones is what counts. A prefix of them must tell apart every two neighbouring conflicting iterations.
    conflict = ~touched.starts[1:] & (touched.writes[1:] | touched.writes[:-1])
    needed = 0
    undecided = np.flatnonzero(conflict)
    for depth, axis in enumerate(remaining, start=1):
        if len(undecided) == 0:
            break
        needed = depth
        at = touched.coordinate(axis)
        undecided = undecided[at[undecided] == at[undecided + 1]]
    if len(undecided) and _moved_axes(stage, places):
        axis = _moved_axes(stage, places)[0]
        raise DSLError(
            f"{stage.name} reads itself at other points of dimension {stage.func.dims[axis]!r} that it writes in the "
            "same step: iterations of a Var have no order",
            location=stage.definition.location,
            hint="let each such read lie in another iteration of a reduction loop",
        )
    return [stage.reduction[axis] for axis in remaining[:needed]], touched


def _moved_axes(stage: ReferenceStage, places: Sequence[tuple[int, ...]]) -> list[int]:
    """Return the dimensions written at every point by a Var in which some self-read is at another point."""
    own = [axis for axis in range(stage.func.ndim) if stage.is_own_var(axis)]
    return [axis for axis in own if any(place[axis] != stage.indices[axis] for place in places)]


def _rows_tell_apart(update: Update, places: Sequence[tuple[int, ...]]) -> bool:
    """Whether one loop alone says in some dimension where is written and read, and no read is where it writes then.

    Conflicting iterations then differ in that loop, whatever they do in other dimensions.
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


def _touched(update: Update, places: Sequence[tuple[int, ...]]) -> Touched:
    stage = update.stage
    moved = _moved_axes(stage, places)
    mixed = {key for place in places for axis, n in enumerate(place) if axis in moved or not stage.is_own_var(axis)
             for key in stage.numbering.loops[n]}  # fmt: skip
    loops = [*stage.reduction, *(loop for loop in update.pure if loop[0] in mixed)]
    axes = [a for a in range(stage.func.ndim) if not stage.is_own_var(a) or stage.func.dims[a] in mixed]
    points = extent(loops)
    if points * len(places) > _MAX_TOUCHED:
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
    writes = order < points  # the first place is the one written
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))  # one entry for a point and an iteration
    writes, key = np.logical_or.reduceat(writes, first), key[first]
    at = key // points
    return Touched(loops, key % points, writes, np.concatenate([[True], at[1:] != at[:-1]]))
