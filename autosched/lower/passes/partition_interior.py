"""Partition the grid of a kernel: the interior is the largest box of blocks where clamps and guards are constant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from autosched.analysis.indices import index as ix
from autosched.lower.builder import CheckedIndex
from autosched.lower.passes.condition_intervals import Mask, Numbers, Runs, possible_outcomes, runs_of

MAX_BLOCKS = 1 << 22
"""Blocks at which a condition on several block loops is evaluated, at most."""
MOST = 0.75
"""Share of the blocks. A condition that is constant in every block restricts the box only if more have one outcome."""


def interior_box(
    conditions: Iterable[CheckedIndex], grid: Sequence[tuple[str, int]]
) -> dict[str, tuple[int, int]] | None:
    """Return the inclusive box of block indices where all conditions have one constant outcome; None if it is empty.

    Two kinds of conditions stay in the code and do not restrict the box. The first depend on data or on the thread in
    all blocks. The second are constant within each block, with an outcome that at most the share `MOST` of the blocks
    have in common: they cause no divergence. The result is exact over all threads of a block, unless outcomes change
    too often along a loop (`runs_of`).

    Args:
        conditions: Conditions without a constant outcome in the whole grid.
        grid: Block loops as (name, extent).
    """
    extents = dict(grid)
    runs_of_loop = {name: Runs.whole(n) for name, n in grid}
    joint: list[tuple[CheckedIndex, tuple[str, ...]]] = []
    for c in conditions:
        names = tuple(v for v in ix.loop_vars(c.index) if v in extents)
        if not names:
            continue
        if len(names) > 1:
            joint.append((c, names))
            continue
        runs = runs_of(c, names[0], extents[names[0]])
        start, end = runs.longest()
        if _restricts(runs.ends > 0, end - start, runs.extent):
            runs_of_loop[names[0]] = runs_of_loop[names[0]].shortened(runs)
    box = {}
    for name, runs in runs_of_loop.items():
        start, end = runs.longest()
        if start == end:
            return None
        box[name] = start, end - 1
    for c, names in joint:
        shrunk = _shrink(c, names, box)
        if shrunk is None:
            return None
        box = shrunk
    return box


def _shrink(
    c: CheckedIndex, names: Sequence[str], box: dict[str, tuple[int, int]]
) -> dict[str, tuple[int, int]] | None:
    """Return the part of a box where a condition on several block loops is constant; None if there is none.

    Return the whole box if the condition need not restrict it, or the box has more than `MAX_BLOCKS` blocks.
    """
    sizes = [box[n][1] - box[n][0] + 1 for n in names]
    if np.prod(sizes, dtype=np.int64) > MAX_BLOCKS:
        return box
    axes = np.meshgrid(*(np.arange(box[n][0], box[n][1] + 1) for n in names), indexing="ij", sparse=True)
    outcomes = possible_outcomes(c, {n: (at, at) for n, at in zip(names, axes, strict=True)}, tuple(sizes))
    masks = [o.yes & (o.value == _most_frequent(o.value[o.yes])) for o in outcomes if o.yes.any()]
    if any(mask.all() for mask in masks):
        return box
    slabs = [slab for mask in masks for slab in _slabs(mask)]
    axis, lo, hi = max(slabs, key=lambda slab: (slab[2] - slab[1] + 1) / sizes[slab[0]], default=(0, 0, -1))
    if not _restricts(np.any([o.yes for o in outcomes], axis=0), hi - lo + 1, sizes[axis]):
        return box
    start = box[names[axis]][0]
    return box | {names[axis]: (start + lo, start + hi)} if slabs else None


def _restricts(decided: Mask, longest: int, blocks: int) -> bool:
    """Whether a condition restricts the box.

    Args:
        decided: Blocks in which it is constant.
        longest: Length of the longest run of blocks with one outcome.
        blocks: Number of blocks.
    """
    return bool(decided.any() and (not decided.all() or longest > MOST * blocks))


def _most_frequent(numbers: Numbers) -> int:
    values, counts = np.unique(numbers, return_counts=True)
    return int(values[np.argmax(counts)])


def _slabs(mask: Mask) -> list[tuple[int, int, int]]:
    """Return the longest run of slabs where a mask is true, as (axis, first, last), for each axis that has one."""
    slabs = []
    for axis in range(mask.ndim):
        run = longest_run(np.asarray(mask.all(axis=tuple(k for k in range(mask.ndim) if k != axis))))
        if run is not None:
            slabs.append((axis, *run))
    return slabs


def longest_run(mask: Mask) -> tuple[int, int] | None:
    """Return the inclusive ends of the longest run of true elements."""
    padded = np.concatenate(([False], mask, [False]))
    starts = np.flatnonzero(padded[1:] & ~padded[:-1])
    ends = np.flatnonzero(padded[:-1] & ~padded[1:])
    if len(starts) == 0:
        return None
    best = int(np.argmax(ends - starts))
    return int(starts[best]), int(ends[best]) - 1
