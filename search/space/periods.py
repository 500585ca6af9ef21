"""Periods of a root's loops: dimensions along which each tile should hold whole periods of a producer.

    f[x] = carry[x // 1024] + block[x // 1024, x % 1024]

An update of ``block`` computes all of its 1024 points, as in `autosched.analysis.rewrites.scan_blocking`. A tile of
``f`` with 1024 points needs one row of ``block``; a smaller one needs the same row again.
"""

from __future__ import annotations

from collections.abc import Iterator

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.target import Target

MOST_POINTS = 32
"""Most points of a thread along a period."""


def periods(bound: BoundPipeline, func: str) -> dict[str, int]:
    """Return the period of each dimension of a scan by blocks that reads a fixed dimension by a remainder.

    It is the largest divisor of the dimension's remainders.
    """
    if all(s.func != func for s in bound.scans):
        return {}
    stage = bound.funcs[func].stages[0]
    found: dict[str, int] = {}
    whole: set[str] = set()
    for load, source in stage.loads:
        if source in bound.funcs and source != func:
            for e, fixed in zip(load.indices, bound.funcs[source].fixed, strict=True):
                for name, divisor in _remainders(stage.index_of(e)):
                    found[name] = max(divisor, found.get(name, 0))
                    if fixed == (0, divisor - 1):
                        whole.add(name)
    return {d: n for d, n in found.items() if d in whole and d in bound.funcs[func].dims}


def _remainders(index: ix.Index) -> Iterator[tuple[str, int]]:
    """Yield loop variable and divisor of each remainder of a loop variable in an index."""
    for atom in ix.postorder(index):
        if atom.kind == "mod":
            match ix.terms_of(atom.args[0]):
                case ((ix.LoopVar(name=name), 1),):
                    yield name, int(atom.payload)


def period_pairs(period: int, vector: bool, target: Target) -> list[tuple[int, int]]:
    """Return the pairs of threads and serial points whose product is a period; whole warps along threadIdx.x."""
    most = min(target.max_threads_per_block, target.max_block_dim[0 if vector else 2])
    least = target.warp_size if vector and target.kind == "cuda" else 1
    threads = [t for t in range(1, min(period, most) + 1) if period % t == 0 and period // t <= MOST_POINTS]
    return [(t, period // t) for t in threads if t % least == 0] or [(t, period // t) for t in threads]
