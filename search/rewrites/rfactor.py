"""Rfactor of reductions that would leave most of the device idle.

An update runs in one thread per point that it writes. A reduction with few points and many iterations is factored until
there is enough parallelism. Its second stage is factored in the same way, so that no thread runs a long loop alone.
Scatter updates can instead use atomic updates, with privatised bins in the shared memory of each block.
"""

from __future__ import annotations

from math import inf, prod, sqrt

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage, LoopDim
from autosched.analysis.pipeline_rewrites import RFactor
from autosched.analysis.rewrites.rfactor import apply_rfactors, rfactor_error
from autosched.search.settings import Atomics
from autosched.target import Target

LEAST_SHARE = 16
"""Least iterations of a partial reduction."""
LONGEST_ALONE = 64
"""Most iterations of a reduction that is not factored: a longer one takes more time than another kernel launch."""
ENOUGH = 0.25
"""Share of the device's threads that points must occupy for a reduction not to be factored."""
ENOUGH_OF_A_CORE = 16
"""Points for each core from which on a reduction needs no contiguous parts: a vector of them."""
MOST_PARTS_OF_A_CORE = 4
"""Contiguous parts for each core, at most."""
UNBALANCED = 1.25
"""Time of contiguous parts over that of as many as there are cores, at most."""
LEAST_BLOCK = 4096
"""Least iterations of a core's part of a reduction: waking a core takes as long as several thousand."""
MOST_RFACTORS = 8
"""Most rfactors of one rewrite."""
LANES = 32
"""Partial reductions of the innermost loop that neighbouring threads compute, so that their loads coalesce."""
BINS_BYTES = 32 * 1024
"""Most bytes of a block's privatised bins in shared memory."""
BLOCKS_EACH = 4
"""Least blocks per multiprocessor of an atomic update."""
DENSITIES = {"cuda": (512, 2048), "cpu": (1, 4)}
"""Threads per multiprocessor, or vectors per core, to try: a few with much work each, or full occupancy."""


def rfactor_rewrites(bound: BoundPipeline, target: Target, *, atomics: Atomics = "exact") -> list[BoundPipeline]:
    """Return the pipeline itself, and its rewrites with rfactors that might occupy the device.

    Args:
        bound: The pipeline; one with rfactors has no further rewrites.
        target: The device.
        atomics: Scatter updates for which atomic updates are tried (see `SearchSettings`).
    """
    if bound.rfactors:
        return [bound]
    lanes = target.warp_size if target.kind == "cpu" else 1
    threads = [target.multiprocessors * lanes * n for n in DENSITIES[target.kind]]
    blocks = contiguous_rfactors(bound, target) if target.kind == "cpu" else ()
    starts = dict.fromkeys(((), blocks))
    factorings = {_rfactors(bound, target, n, start): None for start in starts for n in threads}
    tried = atomics != "none" and target.kind == "cuda"
    shared = _atomic_rfactors(bound, target, threads[-1], exact=atomics == "exact") if tried else ()
    if shared:
        factorings |= {_rfactors(bound, target, threads[-1], shared): None}
    return [bound, *(apply_rfactors(bound, rfactors) for rfactors in factorings if rfactors)]


def _rfactors(
    bound: BoundPipeline, target: Target, threads: int, rfactors: tuple[RFactor, ...] = ()
) -> tuple[RFactor, ...]:  # fmt: skip
    """Return ``rfactors`` and the further rfactors that occupy ``threads`` threads, in order."""
    while len(rfactors) < MOST_RFACTORS:
        rfactor = _next_rfactor(apply_rfactors(bound, rfactors), target, threads)
        if rfactor is None:
            break
        rfactors = (*rfactors, rfactor)
    return rfactors


def _next_rfactor(bound: BoundPipeline, target: Target, threads: int) -> RFactor | None:
    """Return an rfactor of the first reduction with too few points to occupy the device; None if there is none."""
    for func in bound.funcs.values():
        for stage in func.stages[1:]:
            serial = [d for d in stage.reductions if not d.parallel]
            length = prod(d.extent for d in serial)
            points = _points(func, stage)
            if not stage.associative or length <= LONGEST_ALONE or points >= ENOUGH * threads:
                continue
            most = threads / points if length > threads * LEAST_SHARE else min(threads / points, sqrt(length))
            parts = min(most, length / LEAST_SHARE)
            if any(d not in _pure_dims(stage) for d in func.dims):  # scatter: each part stores every point
                if target.kind == "cpu":  # scatter does not vectorise
                    continue
                parts = min(parts, length / (4 * prod(func.extents)))
            rfactor = RFactor(func.name, stage.number, _factors(serial, int(parts)))
            if rfactor.loops and not rfactor_error(bound, rfactor):
                return rfactor
    return None


def contiguous_rfactors(bound: BoundPipeline, target: Target) -> tuple[RFactor, ...]:
    """Return rfactors of long reductions with few points, in consecutive parts for the cores of a CPU.

    Each core then reads memory of its own from end to end. Only loops that divide into equal parts are factored, so
    that terms need no guard.

    Args:
        bound: The pipeline.
        target: A CPU.
    """
    cores = target.multiprocessors
    rfactors: list[RFactor] = []
    for func in bound.funcs.values():
        for stage in func.stages[1:]:
            serial = [d for d in stage.reductions if not d.parallel]
            length = prod(d.extent for d in serial)
            if not stage.associative or not serial or any(d not in _pure_dims(stage) for d in func.dims):
                continue
            if _points(func, stage) >= ENOUGH_OF_A_CORE * cores or length < LEAST_BLOCK * cores:
                continue
            rfactor = RFactor(
                func.name, stage.number, ((serial[0].name, _balanced_parts(serial[0].extent, cores)),), contiguous=True
            )
            if not rfactor_error(bound, rfactor):
                rfactors.append(rfactor)
    return tuple(rfactors[:MOST_RFACTORS])


def _balanced_parts(extent: int, cores: int) -> int:
    """Return the number of equal parts of a loop that occupies the cores best; 1 if none does so well enough."""
    equal = [n for n in range(cores, MOST_PARTS_OF_A_CORE * cores + 1) if extent % n == 0]
    time, parts = min(((-(-n // cores) * cores / n, n) for n in equal), default=(inf, 1))
    return parts if time <= UNBALANCED else 1


def _atomic_rfactors(bound: BoundPipeline, target: Target, threads: int, *, exact: bool) -> tuple[RFactor, ...]:
    """Return an atomic rfactor of each Func with a scatter update that occupies less than ``threads`` threads."""
    rfactors: list[RFactor] = []
    for func in bound.funcs.values():
        for stage in func.stages[1:]:
            pure = _pure_dims(stage)
            scattered = [n for d, n in zip(func.dims, func.extents, strict=True) if d not in pure]
            if not stage.associative or not scattered or stage.is_empty or _points(func, stage) >= ENOUGH * threads:
                continue
            if exact and not all(d.is_int for d in func.dtypes):
                continue
            if prod(scattered) * sum(d.bytes_ for d in func.dtypes) > BINS_BYTES:
                continue
            blocks = prod(n for d, n in zip(func.dims, func.extents, strict=True) if d in pure)
            parts = -(-target.multiprocessors * BLOCKS_EACH // blocks)
            rfactor = RFactor(func.name, stage.number, _outer_factors(stage, parts), atomic=True)
            if not rfactor_error(bound, rfactor):
                rfactors.append(rfactor)
                break
    return tuple(rfactors)


def _outer_factors(stage: BoundStage, parts: int) -> tuple[tuple[str, int], ...]:
    """Return factors of the outer loops with about ``parts`` parts in all; the innermost loop is not factored."""
    factors: list[tuple[str, int]] = []
    for loop in stage.reductions[:-1]:
        n = _divisor(loop.extent, parts)
        if n > 1:
            factors.append((loop.name, n))
            parts = -(-parts // n)
    return tuple(factors)


def _points(func: BoundFunc, stage: BoundStage) -> int:
    """Return the parallel iterations of a stage."""
    extent = dict(zip(func.dims, func.extents, strict=True))
    return prod(d.extent if d.reduction else extent[d.name] for d in stage.loops if d.parallel)


def _pure_dims(stage: BoundStage) -> set[str]:
    """Return the Func's dimensions that are pure loops of a stage."""
    return {d.name for d in stage.loops if not d.reduction}


def _factors(loops: list[LoopDim], parts: int) -> tuple[tuple[str, int], ...]:
    """Return factors of loops with about ``parts`` parts in all.

    The innermost loop accesses neighbouring elements, so it supplies the threads of a warp. The outer loops supply the
    rest, outermost first.
    """
    factors: dict[str, int] = {}
    inner = loops[-1]
    first = parts if len(loops) == 1 else min(parts, LANES)
    factors[inner.name] = _divisor(inner.extent, first)
    left = parts // max(factors[inner.name], 1)
    for loop in loops[:-1]:
        factors[loop.name] = _divisor(loop.extent, left)
        left //= max(factors[loop.name], 1)
    return tuple((d.name, factors[d.name]) for d in loops if factors[d.name] > 1)


def _divisor(extent: int, parts: int) -> int:
    """Return a number of parts near the wanted one: the nearest divisor of the extent within a factor 2, if any."""
    parts = max(min(parts, extent), 1)
    near = [n for n in range(max(parts // 2, 1), min(2 * parts, extent) + 1) if extent % n == 0]
    return min(near, key=lambda n: abs(n - parts)) if near and parts > 1 else parts
