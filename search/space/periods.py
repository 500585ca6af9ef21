"""Periods of a root's loops: dimensions along which each tile should hold whole periods of a producer.

    f[x] = carry[x // 1024] + block[x // 1024, x % 1024]

An update of ``block`` computes all of its 1024 points, as in `autosched.analysis.rewrites.scan_blocking`, or the totals
of its chunks need most of them. A tile of ``f`` with 1024 points needs one row of ``block``; a smaller one needs the
same row again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.target import Target

MOST_POINTS = 32
"""Most points of a thread along a period."""


class Period(NamedTuple):
    """A period of a dimension, and the points of it that one thread computes; 0 for any number."""

    points: int
    of_thread: int = 0


def periods(bound: BoundPipeline, func: str) -> dict[str, Period]:
    """Return the period of each dimension of a scan by blocks: the elements of a block, and those of a chunk.

    Args:
        bound: The pipeline.
        func: A Func; only the result of a scan has periods.
    """
    blocks = {s.block: Period(s.block, s.chunk) for s in bound.scans if s.func == func}
    if not blocks:
        return {}
    stage = bound.funcs[func].stages[0]
    indices = (stage.index_of(e) for load, source in stage.loads if source in bound.funcs for e in load.indices)
    found = (entry for index in indices for entry in _remainders(index))
    return {name: blocks[divisor] for name, divisor in found if divisor in blocks}


def _remainders(index: ix.Index) -> Iterator[tuple[str, int]]:
    """Yield loop variable and divisor of each remainder of a loop variable in an index."""
    for atom in ix.postorder(index):
        if atom.kind == "mod":
            match ix.terms_of(atom.args[0]):
                case ((ix.LoopVar(name=name), 1),):
                    yield name, int(atom.payload)


def period_pairs(period: Period, vector: bool, target: Target) -> list[tuple[int, int]]:
    """Return the pairs of threads and serial points whose product is a period; whole warps along threadIdx.x.

    A thread has a whole chunk where there are chunks, and can scan it in registers.
    """
    points, of_thread = period
    most = min(target.max_threads_per_block, target.max_block_dim[0 if vector else 2])
    if of_thread and points // of_thread <= most:
        return [(points // of_thread, of_thread)]
    least = target.warp_size if vector and target.kind == "cuda" else 1
    threads = [t for t in range(1, min(points, most) + 1) if points % t == 0 and points // t <= MOST_POINTS]
    return [(t, points // t) for t in threads if t % least == 0] or [(t, points // t) for t in threads]
