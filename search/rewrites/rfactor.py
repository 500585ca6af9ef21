"""Which reductions are worth computing in pieces: those that would leave most of the device idle.

An update runs inside one thread for each point that it writes. Where there are fewer points than threads to feed, and
many iterations, the loops are cut until threads are enough; the pieces are joined in the same way, so that no thread
has a long way to go alone. Where an update scatters, threads may share its iterations by atomic operations, each block
in shared memory of its own.
"""

from __future__ import annotations

from math import prod, sqrt

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage, LoopDim, RFactor
from autosched.analysis.rewrites.rfactor import apply_rfactors, rfactor_error
from autosched.search.settings import Atomics
from autosched.target import Target

LEAST_SHARE = 16
"""Iterations that each piece has at least."""
LONGEST_ALONE = 64
"""Iterations that one thread may do alone: more take longer than launching another kernel."""
ENOUGH = 0.25
"""Share of the device's threads that points must fill, or their reductions are cut."""
MOST_SPLITS = 8
LANES = 32
"""Neighbouring pieces of the innermost loop: as many as threads that read side by side."""
BINS_BYTES = 32 * 1024
"""Most bytes of what a block may accumulate together in shared memory."""
BLOCKS_EACH = 4
"""Blocks of a multiprocessor, at least, that accumulate something each."""
DENSITIES = {"cuda": (512, 2048), "cpu": (1, 4)}
"""Threads of a multiprocessor, or vectors of a core, that are tried: few that do much each, or as many as fit."""


def rfactor_rewrites(bound: BoundPipeline, target: Target, *, atomics: Atomics = "exact") -> list[BoundPipeline]:
    """Return the pipeline as it is, and with reductions in pieces in each way that might fill the device.

    Args:
        bound: The pipeline; one that has reductions in pieces already is left as it is.
        target: The device.
        atomics: Which updates that scatter threads may share (see `SearchSettings`).
    """
    if bound.rfactors:
        return [bound]
    lanes = target.warp_size if target.kind == "cpu" else 1
    threads = [target.multiprocessors * lanes * n for n in DENSITIES[target.kind]]
    ways = {_splits(bound, target, n): None for n in threads}
    tried = atomics != "none" and target.kind == "cuda"
    shared = _atomic_splits(bound, target, threads[-1], exact=atomics == "exact") if tried else ()
    if shared:
        ways |= {_splits(bound, target, threads[-1], shared): None}
    return [bound, *(apply_rfactors(bound, splits) for splits in ways if splits)]


def _splits(
    bound: BoundPipeline, target: Target, threads: int, found: tuple[RFactor, ...] = ()
) -> tuple[RFactor, ...]:  # fmt: skip
    """Return the splits that give so many threads something to do, in order, after those that are given."""
    while len(found) < MOST_SPLITS:
        split = _next_split(apply_rfactors(bound, found), target, threads)
        if split is None:
            break
        found = (*found, split)
    return found


def _next_split(bound: BoundPipeline, target: Target, wanted: int) -> RFactor | None:
    for func in bound.funcs.values():
        for stage in func.stages[1:]:
            serial = [d for d in stage.reductions if not d.parallel]
            length = prod(d.extent for d in serial)
            points = _points(func, stage)
            if not stage.associative or length <= LONGEST_ALONE or points >= ENOUGH * wanted:
                continue
            most = wanted / points if length > wanted * LEAST_SHARE else min(wanted / points, sqrt(length))
            pieces = min(most, length / LEAST_SHARE)
            if any(d not in _own_dims(stage) for d in func.dims):  # it scatters: each piece holds every point
                if target.kind == "cpu":  # vectors cannot
                    continue
                pieces = min(pieces, length / (4 * prod(func.extents)))
            split = RFactor(func.name, stage.number, _cut(serial, int(pieces)))
            if split.loops and not rfactor_error(bound, split):
                return split
    return None


def _atomic_splits(bound: BoundPipeline, target: Target, threads: int, *, exact: bool) -> tuple[RFactor, ...]:
    """Return the splits that let so many threads share the iterations of updates that scatter."""
    found: list[RFactor] = []
    for func in bound.funcs.values():
        for stage in func.stages[1:]:
            own = _own_dims(stage)
            scattered = [n for d, n in zip(func.dims, func.extents, strict=True) if d not in own]
            if not stage.associative or not scattered or stage.is_empty or _points(func, stage) >= ENOUGH * threads:
                continue
            if exact and not all(d.is_int for d in func.dtypes):
                continue
            if prod(scattered) * sum(d.bytes_ for d in func.dtypes) > BINS_BYTES:
                continue
            blocks = prod(n for d, n in zip(func.dims, func.extents, strict=True) if d in own)
            pieces = -(-target.multiprocessors * BLOCKS_EACH // blocks)
            split = RFactor(func.name, stage.number, _cut_outside(stage, pieces), atomic=True)
            if not rfactor_error(bound, split):
                found.append(split)
                break
    return tuple(found)


def _cut_outside(stage: BoundStage, pieces: int) -> tuple[tuple[str, int], ...]:
    """Return into how many pieces outer loops are cut, so that there are about so many; neighbours stay together."""
    found: list[tuple[str, int]] = []
    for loop in stage.reductions[:-1]:
        n = _divisor(loop.extent, pieces)
        if n > 1:
            found.append((loop.name, n))
            pieces = -(-pieces // n)
    return tuple(found)


def _points(func: BoundFunc, stage: BoundStage) -> int:
    """Return the iterations of all loops that may run at the same time."""
    extent = dict(zip(func.dims, func.extents, strict=True))
    return prod(d.extent if d.reduction else extent[d.name] for d in stage.loops if d.parallel)


def _own_dims(stage: BoundStage) -> set[str]:
    """Return the Func's dimensions that a stage walks with their own Vars."""
    return {d.name for d in stage.loops if not d.reduction}


def _cut(loops: list[LoopDim], pieces: int) -> tuple[tuple[str, int], ...]:
    """Return into how many pieces each loop is cut, so that there are about so many in all.

    The innermost loop walks neighbouring elements, so it gives the threads that read side by side; the outer ones give
    the rest, outermost first.
    """
    found: dict[str, int] = {}
    inner = loops[-1]
    first = pieces if len(loops) == 1 else min(pieces, LANES)
    found[inner.name] = _divisor(inner.extent, first)
    left = pieces // max(found[inner.name], 1)
    for loop in loops[:-1]:
        found[loop.name] = _divisor(loop.extent, left)
        left //= max(found[loop.name], 1)
    return tuple((d.name, found[d.name]) for d in loops if found[d.name] > 1)


def _divisor(extent: int, wanted: int) -> int:
    """Return a number of pieces near the wanted one; one that divides the extent, if there is one within a factor 2."""
    wanted = max(min(wanted, extent), 1)
    near = [n for n in range(max(wanted // 2, 1), min(2 * wanted, extent) + 1) if extent % n == 0]
    return min(near, key=lambda n: abs(n - wanted)) if near and wanted > 1 else wanted
