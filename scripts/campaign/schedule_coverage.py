"""A small set of schedules that covers every kind of kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.errors import AutoschedError
from autosched.lang.dtypes import bfloat16
from autosched.lang.expr import Load, walk
from autosched.lower.ir import KernelIR, LetVector, StoreVector, WarpReduce
from autosched.lower.ir import walk as walk_statements
from autosched.lower.passes.coalesce_accesses import coalesce_accesses
from autosched.lower.program import lower
from autosched.measure.compile.content_keys import schedule_text
from autosched.measure.problem import Problem
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.sampling.random_warp_reduction import Lanes
from autosched.schedule.types import Kernel, Level, Schedule
from autosched.target import Target

OF_EACH_KIND = 3
"""Sufficient number of schedules with a kernel of a kind."""
TRIES = 8
"""Random schedules of a problem."""
_WIDE, _NARROW = 64, 16
_TILE_LEVELS = (Level.BLOCK, Level.WARP)
_TIME_TILE = 2
"""Fused producers with tiles of a chain of equal steps, besides the root; other chains of that length have its code."""


@dataclass(frozen=True)
class Sample:
    """A schedule with the kinds of its kernels."""

    name: str
    problem: str
    schedule: str
    kinds: frozenset[str]


def sample_kinds(problems: Iterable[tuple[str, Problem]], target: Target, *, tries: int = TRIES) -> list[Sample]:
    """Return schedules that cover every kind of kernel of random legal schedules; see `drawn_samples`.

    Args:
        problems: Small problems by name.
        target: Target of the schedules.
        tries: Random schedules per problem.
    """
    return covering(s for name, problem in problems for s in drawn_samples(name, problem, target, tries))


def covering(samples: Iterable[Sample]) -> list[Sample]:
    """Return the samples, in order, until every kind has `OF_EACH_KIND` of them."""
    counts: Counter[str] = Counter()
    chosen = []
    for sample in samples:
        if any(counts[kind] < OF_EACH_KIND for kind in sample.kinds):
            counts.update(sample.kinds)
            chosen.append(sample)
    return chosen


def drawn_samples(name: str, problem: Problem, target: Target, tries: int = TRIES) -> Iterator[Sample]:
    """Yield random legal schedules of a problem.

    Every second one has aligned tiles, cache reads, materialised producers, mainloops, sliding windows, tiles of warps,
    hybrid tiles and warp reductions where they are legal.

    Args:
        name: Name of the problem.
        problem: A small problem.
        target: Target of the schedules.
        tries: Number of schedules.
    """
    bound = problem.bind()
    for seed in range(tries):
        varied = seed % 2 == 1
        lanes: Lanes = "all" if varied else "none"
        try:
            schedule = sample_schedule(bound, target, np.random.default_rng(seed), varied=varied, lanes=lanes)
        except AutoschedError:  # the sampler found none; other seeds remain
            continue
        text = schedule_text(bound, schedule)
        yield Sample(f"{name}/{seed}", problem.text(), text, frozenset(kinds_of(bound, schedule)))


def kinds_of(bound: BoundPipeline, schedule: Schedule) -> Iterator[str]:
    """Yield the kinds of a schedule's kernels."""
    for kernel, ir in zip(schedule.kernels, lower(bound, schedule).kernels, strict=True):
        yield from _kinds_of_schedule(kernel)
        yield from _kinds_of_code(coalesce_accesses(ir))
        rewritten = insert_cache_reads(bound, kernel.cache_reads)
        for tiling in kernel.tilings():
            yield from _kinds_of_stage(rewritten.stage(*tiling.stage))
        for name in kernel.root_funcs:
            bits = {d.bits for d in bound.funcs[name].dtypes}
            yield from (["64-bit numbers"] if _WIDE in bits else [])
            yield from (["bfloat16"] if bfloat16 in bound.funcs[name].dtypes else [])
            yield from (["numbers of at most 16 bits"] if min(bits) <= _NARROW else [])


def _kinds_of_schedule(kernel: Kernel) -> Iterator[str]:
    yield from (f"fused producer at {m.at.level.name}" for m in kernel.fused)
    if kernel.inlined:
        yield "inlined Func"
    if kernel.cache_reads:
        yield "cache read"
    if any(m.aligned for m in kernel.fused):
        yield "aligned tile"
    if any(m.materialised for m in kernel.fused):
        yield "materialised producer"
    if any(m.asynchronous for m in kernel.fused):
        yield "async copy"
    if kernel.mainloop_at is not None:
        yield "sliding window" if kernel.is_sliding_window else "mainloop"
    if len(kernel.roots) > 1:
        yield "several roots"
    if kernel.warp_loops:
        yield "warp tiles"
    if any(m.registers is not None for m in kernel.fused):
        yield "hybrid tile"
    if any(m.private and m.at.level is Level.MAINLOOP for m in kernel.fused):
        yield "window in registers"
    if sum(m.at.level in _TILE_LEVELS for m in kernel.fused) >= _TIME_TILE:
        yield "time tile"
    if kernel.linear_threads:
        yield "linear threads"
    if kernel.resident_blocks:
        yield "launch bounds"


def _kinds_of_code(ir: KernelIR) -> Iterator[str]:
    if ir.shared_bytes:
        yield "shared memory"
    if any(isinstance(s, LetVector | StoreVector) for s in walk_statements(ir.body)):
        yield "vectors"
    if any(isinstance(s, WarpReduce) for s in walk_statements(ir.body)):
        yield "warp reduction"


def _kinds_of_stage(stage: BoundStage) -> Iterator[str]:
    if stage.reductions:
        in_order = any(not d.parallel for d in stage.loops)
        yield "update in any order" if not in_order else "reduction" if stage.associative else "scan"
    if stage.steps:
        yield "scan over rows"
    if any(isinstance(e, Load) for index in stage.indices for e in walk(index)):
        yield "scatter"
    if any(isinstance(e, Load) for load, _ in stage.loads for index in load.indices for e in walk(index)):
        yield "gather"
