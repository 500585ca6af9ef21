"""Parts of schedules: loop sizes, fusable root stages, counts of inlined calls, random tilings of fused producers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

import numpy as np

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.schedule.kernel.thread_fusion import is_private_tile
from autosched.schedule.policy import unrolls_reduction
from autosched.schedule.types import Loop, LoopKind, StageId, StageTiling
from autosched.target import Target

MOST_CALLS = (1 << 31) - 1
"""Call counts saturate here: they grow exponentially along chains of Funcs that each read two Funcs."""
MAX_UNROLLED_LOADS = 2048
"""Limit on the loads in a kernel's unrolled loops; beyond it, compilers take seconds, then minutes."""


def loop_sizes(func: BoundFunc, stage: BoundStage, extents: Sequence[int]) -> dict[str, int]:
    """Return the size of each loop of a stage over a box of its Func with these extents."""
    pure = dict(zip(func.dims, extents, strict=True))
    return {d.name: d.extent if d.reduction else pure[d.name] for d in stage.loops}


def fusable_roots(func: BoundFunc) -> list[list[BoundStage]]:
    """Return a Func's stages grouped by kernel: consecutive stages with private tiles share one.

    A kernel has at most `MAX_UNROLLED_LOADS` loads, its reductions unrolled.
    """
    groups: list[list[BoundStage]] = []
    group_is_private, loads = False, 0
    for stage in func.stages:
        if not stage.values or stage.is_empty:
            continue
        is_private, more = is_private_tile(func, stage), _unrolled_loads(stage)
        if group_is_private and is_private and loads + more <= MAX_UNROLLED_LOADS:
            groups[-1].append(stage)
            loads += more
        else:
            groups.append([stage])
            loads = more
        group_is_private = is_private
    return groups


def _unrolled_loads(stage: BoundStage) -> int:
    terms = prod(d.extent for d in stage.reductions)
    return sum(stage.load_counts.values()) * (terms if unrolls_reduction(1, terms) else 1)


def inlined_calls(bound: BoundPipeline, stages: Iterable[StageId], inlined: set[str]) -> dict[str, int]:
    """Return the number of evaluations of each inlined Func per evaluation of the stages."""
    calls: dict[str, int] = {}

    def count(stage: BoundStage, times: int) -> None:
        for source, n in stage.load_counts.items():
            if source in inlined:
                calls[source] = min(calls.get(source, 0) + n * times, MOST_CALLS)

    for s in stages:
        count(bound.stage(s.func, s.number), 1)
    for name in reversed(list(bound.funcs)):  # consumers first, so that each Func's count is complete when it is used
        if name in calls:
            count(bound.funcs[name].stages[0], calls[name])
    return calls


def call_chain(bound: BoundPipeline, stages: Iterable[StageId], inlined: set[str]) -> int:
    """Return the largest number of loads per evaluation of a stage, with Funcs inlined."""
    worst = 0
    for s in stages:
        stage = bound.stage(s.func, s.number)
        calls = inlined_calls(bound, [s], inlined)
        total = sum(stage.load_counts.values())
        total += sum(n * sum(bound.funcs[f].stages[0].load_counts.values()) for f, n in calls.items())
        worst = max(worst, total)
    return worst


def cyclic_tiling(tiling: StageTiling) -> StageTiling:
    """Return a tiling whose threads have points as far apart as there are threads: serial loops before thread loops."""
    blocks, serial = tiling.of_kind(LoopKind.BLOCK), tiling.of_kind(LoopKind.SERIAL)
    rest = tiling.of_kind(LoopKind.THREAD, LoopKind.REDUCTION)
    return StageTiling(tiling.stage, (*blocks, *serial, *rest))


def random_factorisation(rng: np.random.Generator, extent: int, choices: Sequence[int], limit: int = 1 << 30) -> int:
    """Draw a factor from ``choices``, or the whole extent if it is small, up to ``extent`` and ``limit``."""
    legal = [c for c in choices if c <= extent and c <= limit] or [1]
    if 1 < extent <= min(16, limit) and rng.random() < 0.3:
        return extent
    return int(rng.choice(legal))


def random_producer_tiling(
    rng: np.random.Generator, func: BoundFunc, stage: BoundStage, extents: Mapping[str, int],
    block: tuple[int, int, int], target: Target,
) -> tuple[Loop, ...]:  # fmt: skip
    """Draw the loops of a producer in shared memory: thread and serial loops over each parallel dimension."""
    sizes = {d.name: d.extent if d.reduction else extents[d.name] for d in stage.loops}
    parallel = [d.name for d in stage.loops if d.parallel]
    threads: list[Loop] = []
    serial: list[Loop] = []
    budget = target.max_threads_per_block
    for k in rng.permutation(len(parallel)):
        d = parallel[k]
        t = 1
        if len(threads) < 3 and rng.random() < 0.85:
            n = block[len(threads)]
            drawn = n if n > 1 and rng.random() < 0.7 else int(rng.choice([2, 4, 8, 16, 32]))
            t = min(drawn, sizes[d], budget, target.max_block_dim[len(threads)])
        budget //= t
        if t > 1:
            threads.append(Loop(d, LoopKind.THREAD, t))
        rest = -(-sizes[d] // t)
        if rest > 1 or (t == 1 and stage.loop(d).reduction):  # reduction loops of extent 1 are listed
            serial.append(Loop(d, LoopKind.SERIAL, rest))
    terms = [Loop(d.name, LoopKind.REDUCTION, d.extent) for d in stage.reductions if d.name not in parallel]
    for loop in serial:
        terms.insert(int(rng.integers(0, len(terms) + 1)), loop)
    return (*threads, *terms)


def random_thread_tiling(rng: np.random.Generator, stage: BoundStage, extents: Mapping[str, int]) -> tuple[Loop, ...]:
    """Draw the order of a THREAD producer's loops; their extents follow from its region."""
    pure = [Loop(d.name, LoopKind.SERIAL, extents[d.name]) for d in stage.loops if not d.reduction]
    mixed = [Loop(d.name, LoopKind.REDUCTION, d.extent) for d in stage.reductions]
    for k in rng.permutation(len(pure)):
        mixed.insert(int(rng.integers(0, len(mixed) + 1)), pure[k])
    return tuple(mixed)
