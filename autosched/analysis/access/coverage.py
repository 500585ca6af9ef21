"""Whether grids of points together hold another. Extents of any size: only offsets and steps are looked at."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from autosched.analysis.bound_pipeline import Box

Progression = tuple[int, int, int]
"""First and last number, both included, and the step between numbers."""
Grid = tuple[Progression, ...]
"""A progression in each dimension."""

MOST_CLASSES = 1 << 10
"""Remainders of the steps, those of all dimensions multiplied, that are told apart."""
MOST_PIECES = 1 << 12
"""Boxes of what is left that are looked at."""


def box_grid(box: Box) -> Grid:
    """Return all points of a box."""
    return tuple((lo, hi, 1) for lo, hi in box)


def covers(grids: Sequence[Grid], wanted: Grid) -> bool:
    """Whether every point of a grid is in one of the others; False too where that takes too much work to tell.

    Points whose coordinates have the same remainders are a box of quotients, and so are the grids among them.
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
    """Return the quotients of a grid's points that have the given remainders, None where it has no such points."""
    found = []
    for (first, last, step), remainder, period in zip(grid, remainders, periods, strict=True):
        lo, hi = -((remainder - first) // period), (last - remainder) // period
        if (remainder - first) % step or lo > hi:
            return None
        found.append((lo, hi))
    return tuple(found)


def _is_covered(box: Box, boxes: Sequence[Box]) -> bool:
    """Whether boxes together hold a box: each is cut off from what those before it leave."""
    left = [box]
    for b in boxes:
        left = [piece for p in left for piece in _without(p, b)]
        if len(left) > MOST_PIECES:
            return False
    return not left


def _without(box: Box, other: Box) -> list[Box]:
    """Return boxes that hold the points of one box outside another, each once."""
    if any(hi < a or b < lo for (lo, hi), (a, b) in zip(box, other, strict=True)):
        return [box]
    found: list[Box] = []
    for d, ((lo, hi), (a, b)) in enumerate(zip(box, other, strict=True)):
        found += [(*box[:d], side, *box[d + 1 :]) for side in ((lo, a - 1), (b + 1, hi)) if side[0] <= side[1]]
        box = (*box[:d], (max(lo, a), min(hi, b)), *box[d + 1 :])
    return found
