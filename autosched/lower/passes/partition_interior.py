"""The interior of a kernel: the box of blocks in which every clamp and guard is decided, and in one way for all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from autosched.analysis.indices import index as ix
from autosched.lower.builder import CheckedIndex
from autosched.lower.passes.condition_intervals import Mask, Numbers, Runs, answers, runs_of

MAX_BLOCKS = 1 << 22
MOST = 0.75


def interior_box(
    conditions: Iterable[CheckedIndex], grid: Sequence[tuple[str, int]]
) -> dict[str, tuple[int, int]] | None:
    """Return the inclusive box of block indices where all conditions are decided, or None when there is none.

    One body serves the whole box, so a condition must be decided in the same way in all of its blocks. Conditions that
    are decided in no block at all (they depend on data or on the thread alone) are left in the code and do not count;
    nor do those that every block decides, if at most the share `MOST` of them agree, as their code does not diverge
    anyway. Exact for each condition over all threads of a block, where its answers do not change too often (`runs_of`).

    Args:
        conditions: What a kernel body could not decide.
        grid: Block loops as (name, extent).
    """
    extents = dict(grid)
    reach = {name: Runs.whole(n) for name, n in grid}
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
        if _counts(runs.ends > 0, end - start, runs.extent):
            reach[names[0]] = reach[names[0]].shortened(runs)
    box = {}
    for name, runs in reach.items():
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
    """Cut a box so that a condition on several block loops is decided throughout; leave it if it counts nowhere."""
    sizes = [box[n][1] - box[n][0] + 1 for n in names]
    if np.prod(sizes, dtype=np.int64) > MAX_BLOCKS:
        return box
    axes = np.meshgrid(*(np.arange(box[n][0], box[n][1] + 1) for n in names), indexing="ij", sparse=True)
    found = answers(c, {n: (at, at) for n, at in zip(names, axes, strict=True)}, tuple(sizes))
    masks = [a.yes & (a.value == _commonest(a.value[a.yes])) for a in found if a.yes.any()]
    if any(mask.all() for mask in masks):
        return box
    slabs = [slab for mask in masks for slab in _slabs(mask)]
    axis, lo, hi = max(slabs, key=lambda slab: (slab[2] - slab[1] + 1) / sizes[slab[0]], default=(0, 0, -1))
    if not _counts(np.any([a.yes for a in found], axis=0), hi - lo + 1, sizes[axis]):
        return box
    start = box[names[axis]][0]
    return box | {names[axis]: (start + lo, start + hi)} if slabs else None


def _counts(decided: Mask, longest: int, blocks: int) -> bool:
    """Whether the box is cut for a condition that some blocks decide; ``longest`` run of ``blocks`` have one answer."""
    return bool(decided.any() and (not decided.all() or longest > MOST * blocks))


def _commonest(answers: Numbers) -> int:
    values, counts = np.unique(answers, return_counts=True)
    return int(values[np.argmax(counts)])


def _slabs(mask: Mask) -> list[tuple[int, int, int]]:
    """Return for each axis, where there is one, the longest run of slabs on all of which a mask is true."""
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
