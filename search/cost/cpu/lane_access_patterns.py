"""Access patterns of neighbouring lanes of a loop."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.accesses.accesses import AccessGroup, AccessRow
from autosched.featurize.featurizer import SketchFeaturizer
from autosched.featurize.sketch.sketch import location_storage
from autosched.schedule.cpu_policy import MAX_PERIOD, MAX_VECTOR_STEP, lane_period
from autosched.search.refine.tile_alignment import array_in_memory

Ints = NDArray[np.int64]
UNEVEN = 1 << 20
"""Step of lanes at quotients, which is too large for vectors."""

Quotient = tuple[int, int]
"""Step of an index, times its quotient, from a lane to the next, and the quotient."""
Moves = dict[str, int]
"""Step of each dimension of a stage from a lane to the next, without dimensions of step 0."""


def index_step(row: AccessRow, moves: Moves) -> int:
    """Return the step of an index, times its quotient, from a lane to the next."""
    return sum(c * moves.get(loop, 0) for loop, c in row.coefficients)


def iteration_distance(store: AccessGroup, load: AccessGroup, loop: str) -> int:
    """Return the dependence distance from a store to a load in iterations of a loop; 0 without a later load."""
    rows = list(zip(store.rows, load.rows, strict=True))
    if any(w is None or r is None or (w.coefficients, w.quotient) != (r.coefficients, r.quotient) for w, r in rows):
        return 0
    steps = [dict(w.coefficients).get(loop, 0) for w, _ in rows if w is not None]
    if not any(steps) or any(w is not None and w.quotient > 1 for w, _ in rows):
        return 0
    distances = set()
    for written, read in product(store.offsets, load.offsets):
        k = next(k for k, step in enumerate(steps) if step)
        later = (written[k] - read[k]) // steps[k]
        if all(w - later * step == r for w, r, step in zip(written, read, steps, strict=True)):
            distances.add(later)
    return min((n for n in distances if n > 0), default=0)


def index_values(group: AccessGroup, dim: str, rows: int) -> Ints:
    """Return the indices of accesses in adjacent rows, ``int64[rows, accesses, dimensions]``.

    Args:
        group: The accesses.
        dim: The dimension of neighbouring rows.
        rows: Number of rows.
    """
    quotients = np.array([1 if row is None else row.quotient for row in group.rows], np.int64)
    shifts = np.array([0 if row is None else dict(row.coefficients).get(dim, 0) for row in group.rows], np.int64)
    indices: Ints = (np.array(group.offsets, np.int64) + shifts * np.arange(rows)[:, None, None]) // quotients
    return indices


def period(steps: Sequence[int | None], quotients: Sequence[Quotient]) -> int:
    """Return the period by which the C backend unrolls a lane loop; 1 where it does not.

    See `autosched.lower.passes.cpu.unroll_by_period`.

    Blocks and tiles of a lane loop are assumed to be aligned with periods that are a power of two.

    Args:
        steps: Distances of lanes of all accesses without quotients; None where a distance is no constant.
        quotients: Quotients of the remaining accesses, see `LaneAccesses.quotient`.
    """
    count = lane_period(quotients)
    if count > MAX_PERIOD or count & (count - 1) or None in steps:
        return 1
    apart = [*(step * count for step in steps if step is not None), *(move * count // q for move, q in quotients)]
    return count if max(apart, default=0) <= MAX_VECTOR_STEP else 1


class LaneAccesses:
    """Access patterns of lanes in a kernel's stages.

    Args:
        model: The kernel's sketch.
    """

    def __init__(self, model: SketchFeaturizer) -> None:
        self._model = model

    def step(self, group: AccessGroup, moves: Moves, wild: set[tuple[str, int]]) -> int | None:
        """Return the distance of neighbouring lanes in elements; None if it is no constant."""
        fastest = self.fastest(group.source)
        # Without an exact row, inexactness means a conditional load, not a floor.
        floors = any(r is not None and r.exact for r in group.rows)
        in_memory = group.source in self._model.bound.inputs or self._model.sketch.location(group.source) is None
        strides: Sequence[int] = (UNEVEN,) * len(group.rows)  # buffers have another storage order
        if in_memory:
            _, strides, _ = array_in_memory(self._model.bound, group)
        step = 0
        for k, row in enumerate(group.rows):
            if row is None:
                if (group.source, k) in wild:
                    return None
                continue
            move = abs(index_step(row, moves))
            if row.exact and move % row.quotient == 0:  # x + k//2 moves as x does
                move //= row.quotient
            elif move and row.quotient > 1:
                return None
            if move >= UNEVEN or (move and floors and not row.exact):
                return None
            step += move if k == fastest else move * strides[k]
        return step

    def in_row(self, group: AccessGroup, moves: Moves, wild: set[tuple[str, int]]) -> bool:
        """Whether neighbouring lanes access nearby elements of one row, at quotients as well."""
        fastest = self.fastest(group.source)
        for k, row in enumerate(group.rows):
            if row is None:
                if (group.source, k) in wild:
                    return False
            else:
                move = abs(index_step(row, moves))
                if move and (k != fastest or move > MAX_VECTOR_STEP * row.quotient):
                    return False
        return True

    def quotient(self, group: AccessGroup, moves: Moves, wild: set[tuple[str, int]]) -> Quotient | None:
        """Return the step and the quotient of lanes at quotients along one row; None for all other accesses."""
        result = None
        for k, row in enumerate(group.rows):
            if row is None:
                if (group.source, k) in wild:
                    return None
            elif move := abs(index_step(row, moves)):
                if move >= UNEVEN or move % row.quotient == 0 or not row.exact or k != self.fastest(group.source):
                    return None
                result = move, row.quotient
        return result

    def distinct(self, group: AccessGroup, at: Quotient, phases: int) -> int:
        """Return the number of distinct elements of a row that ``phases`` lanes at quotients access."""
        fastest, (move, quotient) = self.fastest(group.source), at
        lanes = [(o, (o[fastest] + lane * move) // quotient) for o in group.offsets for lane in range(phases)]
        return len({(*o[:fastest], column, *o[fastest + 1 :]) for o, column in lanes})

    def has_others_between(self, group: AccessGroup, step: int) -> bool:
        """Whether several loads lie between two lanes that are ``step`` elements apart."""
        return any(b - a < step for columns in self._columns(group) for a, b in pairwise(sorted(columns)))

    def _columns(self, group: AccessGroup) -> list[list[int]]:
        """Return the offsets of accesses in each row."""
        fastest = self.fastest(group.source)
        rows: dict[tuple[int, ...], list[int]] = {}
        for offset in group.offsets:
            rows.setdefault((*offset[:fastest], *offset[fastest + 1 :]), []).append(offset[fastest])
        return list(rows.values())

    def has_gaps(self, group: AccessGroup, step: int) -> bool:
        """Whether loads of lanes that are ``step`` elements apart skip the last elements of a step."""
        for columns in self._columns(group):
            first = last = min(columns)
            for column in sorted(columns):
                if column >= first + step:
                    if last != first + step - 1:
                        return True
                    first = column
                last = column
            if last != first + step - 1:
                return True
        return False

    def alignment(self, group: AccessGroup, moves: Moves) -> float:
        """Return the largest power of two that divides the bytes between lanes; 0 if these are no constant.

        Arrays are assumed to be in memory.
        """
        size, strides, _ = array_in_memory(self._model.bound, group)
        apart = 0
        for stride, row in zip(strides, group.rows, strict=True):
            if row is None or row.quotient > 1:
                return 0.0
            apart += size * stride * index_step(row, moves)
        return float(apart & -apart)

    def fastest(self, source: str) -> int:
        """Return the dimension of an array whose neighbours are adjacent in memory."""
        model = self._model
        func = model.bound.funcs.get(source)
        location = None if func is None else model.sketch.location(source)
        if func is not None and location is not None:
            return func.dims.index(location_storage(func, location)[-1]) if func.dims else 0
        extents = model.bound.inputs[source].shape if func is None else func.extents
        return max((k for k, n in enumerate(extents) if n > 1), default=0)
