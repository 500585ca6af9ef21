"""The interior of a kernel: the box of blocks in which every clamp and guard is decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from autosched.analysis import index as ix
from autosched.lower.scope import Condition

MAX_BLOCKS = 1 << 22
Mask = np.ndarray[Any, np.dtype[np.bool_]]


def interior_box(conditions: Iterable[Condition], grid: Sequence[tuple[str, int]]) -> dict[str, tuple[int, int]] | None:
    """Return the inclusive box of block indices where all conditions hold, or None when there is none.

    Conditions that hold in no block at all (they depend on data or on the thread alone) are left in the code and do
    not count. Exact for each condition over all threads of a block.

    Args:
        conditions: What a kernel body could not decide.
        grid: Block loops as (name, extent).
    """
    extents = dict(grid)
    masks: dict[str, Mask] = {name: np.ones(n, bool) for name, n in grid}
    joint: list[tuple[Condition, tuple[str, ...]]] = []
    for c in conditions:
        names = tuple(v for v in ix.loop_vars(c.index) if v in extents)
        if not names:
            continue
        if len(names) > 1:
            joint.append((c, names))
            continue
        mask = np.broadcast_to(_holds(c, {names[0]: np.arange(extents[names[0]])}), (extents[names[0]],))
        if mask.any():
            masks[names[0]] = masks[names[0]] & mask
    box = {}
    for name, mask in masks.items():
        run = longest_run(mask)
        if run is None:
            return None
        box[name] = run
    for c, names in joint:
        shrunk = _shrink(c, names, box)
        if shrunk is None:
            return None
        box = shrunk
    return box


def _shrink(c: Condition, names: Sequence[str], box: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]] | None:
    """Cut a box so that a condition on several block loops holds throughout; leave it if it holds nowhere."""
    sizes = [box[n][1] - box[n][0] + 1 for n in names]
    if np.prod(sizes, dtype=np.int64) > MAX_BLOCKS:
        return box
    axes = np.meshgrid(*(np.arange(box[n][0], box[n][1] + 1) for n in names), indexing="ij", sparse=True)
    holds = np.broadcast_to(_holds(c, dict(zip(names, axes, strict=True))), sizes)
    if holds.all() or not holds.any():
        return box
    for axis, name in enumerate(names):  # a slab is kept when the condition holds on all of it
        others = tuple(k for k in range(len(names)) if k != axis)
        run = longest_run(np.asarray(holds.all(axis=others)))
        if run is not None:
            return box | {name: (box[name][0] + run[0], box[name][0] + run[1])}
    return None


def _holds(c: Condition, blocks: Mapping[str, Any]) -> Any:
    lo, hi = ix.bounds(c.index, {name: (at, at) for name, at in blocks.items()})
    lo, hi = np.asarray(lo), np.asarray(hi)
    match c.kind:
        case "sign":
            return (hi <= 0) | (lo >= 0)
        case "nonnegative":
            return lo >= 0
        case "split":
            return (lo >= 0) | (hi < 0)
        case "nonzero":
            return (lo > 0) | (hi < 0)
        case _:
            return lo // c.divisor == hi // c.divisor


def longest_run(mask: Mask) -> tuple[int, int] | None:
    """Return the inclusive ends of the longest run of true elements."""
    padded = np.concatenate(([False], mask, [False]))
    starts = np.flatnonzero(padded[1:] & ~padded[:-1])
    ends = np.flatnonzero(padded[:-1] & ~padded[1:])
    if len(starts) == 0:
        return None
    best = int(np.argmax(ends - starts))
    return int(starts[best]), int(ends[best]) - 1
