"""Coverage of a grid of points by a union of grids; the work depends on offsets and steps, not on extents."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from autosched.analysis.bound_pipeline import Box

Progression = tuple[int, int, int]
"""First and last number, inclusive, and the step."""
Grid = tuple[Progression, ...]
"""A progression in each dimension."""

MOST_CLASSES = 1 << 10
"""Limit of the product of the periods of all dimensions."""
MOST_PIECES = 1 << 12
"""Limit of the number of uncovered boxes."""


def box_grid(box: Box) -> Grid:
    """Return all points of a box."""
    return tuple((lo, hi, 1) for lo, hi in box)


def covers(grids: Sequence[Grid], wanted: Grid) -> bool:
    """Whether every point of a grid lies in one of the others; False also beyond the limits of work.

    Points with equal remainders of their coordinates form a box of quotients, in each of the grids.
    """
    periods = [math.lcm(*(g[d][2] for g in (wanted, *grids))) for d in range(len(wanted))]
    if math.prod(periods) > MOST_CLASSES:
        return False
    for remainders in itertools.product(*(range(p) for p in periods)):
        needed = _quotients(wanted, remainders, periods)
        if needed is None:
            continue
        boxes = [b for b in (_quotients(g, remainders, periods) for g in grids) if b is not None]
        if not _is_covered(needed, boxes):
            return False
    return True


def _quotients(grid: Grid, remainders: Sequence[int], periods: Sequence[int]) -> Box | None:
    """Return the quotients of a grid's points with the given remainders; None if there are no such points."""
    box = []
    for (first, last, step), remainder, period in zip(grid, remainders, periods, strict=True):
        lo, hi = -((remainder - first) // period), (last - remainder) // period
        if (remainder - first) % step or lo > hi:
            return None
        box.append((lo, hi))
    return tuple(box)


def _is_covered(box: Box, boxes: Sequence[Box]) -> bool:
    """Whether the union of boxes covers a box; each is subtracted from the uncovered rest."""
    uncovered = [box]
    for b in boxes:
        uncovered = [piece for p in uncovered for piece in _difference(p, b)]
        if len(uncovered) > MOST_PIECES:
            return False
    return not uncovered


def _difference(box: Box, other: Box) -> list[Box]:
    """Return disjoint boxes with the points of one box outside another."""
    if any(hi < a or b < lo for (lo, hi), (a, b) in zip(box, other, strict=True)):
        return [box]
    pieces: list[Box] = []
    for d, ((lo, hi), (a, b)) in enumerate(zip(box, other, strict=True)):
        pieces += [(*box[:d], side, *box[d + 1 :]) for side in ((lo, a - 1), (b + 1, hi)) if side[0] <= side[1]]
        box = (*box[:d], (max(lo, a), min(hi, b)), *box[d + 1 :])
    return pieces
