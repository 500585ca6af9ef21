"""Variants of compiled schedules with launch bounds for more resident blocks, where registers limit these.

A limit on registers costs instructions, spills or latency that no model predicts. So variants are for modes that
measure schedules; the compiler says where they differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.errors import CompileError
from autosched.featurize.regions.occupancy import resident_blocks
from autosched.schedule.kernel.memory_layout import shared_layout
from autosched.schedule.planner import plan_kernel
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Kernel, Schedule
from autosched.search.results import RankedSchedule
from autosched.search.tune.spill_filter import SpillTable, compiler_problem
from autosched.target import Target


def with_resident_blocks(ranked: Sequence[RankedSchedule], table: SpillTable) -> tuple[RankedSchedule, ...]:
    """Return variants of schedules whose kernels have more resident blocks and spill no more; each once.

    Args:
        ranked: Schedules of one pipeline.
        table: Registers and spills by kernel; without a compiler, and for a CPU, there are no variants.
    """
    if table.target.kind != "cuda" or compiler_problem(table.target):
        return ()
    variants: list[RankedSchedule] = []
    seen = {r.schedule for r in ranked}
    for r in ranked:
        try:
            schedule = _with_most_blocks(r.schedule, table)
        except CompileError:  # of this schedule; measuring reports it
            continue
        if schedule not in seen:
            seen.add(schedule)
            variants.append(replace(r, schedule=schedule, state=None))
    return tuple(variants)


def _with_most_blocks(schedule: Schedule, table: SpillTable) -> Schedule:
    """Return a schedule whose kernels have the launch bounds with the most resident blocks that spill no more."""
    bound = apply_rewrites(table.bound, schedule)
    spills = table.of(schedule)
    for k, registers in enumerate(table.registers(schedule)):
        assert registers is not None
        for blocks in resident_block_counts(bound, schedule.kernels[k], table.target, registers):
            bounded = replace(schedule.kernels[k], resident_blocks=blocks)
            changed = replace(schedule, kernels=(*schedule.kernels[:k], bounded, *schedule.kernels[k + 1 :]))
            if table.is_late():
                return schedule
            if table.of(changed)[k] <= spills[k]:
                schedule = changed
                break
    return schedule


def resident_block_counts(bound: BoundPipeline, kernel: Kernel, target: Target, registers: int) -> Iterator[int]:
    """Yield the numbers of resident blocks to try, the most first; none where registers do not limit these.

    Args:
        bound: The pipeline of the schedule.
        kernel: A compiled kernel.
        target: A GPU.
        registers: Registers of its threads.
    """
    plan = plan_kernel(insert_cache_reads(bound, kernel.cache_reads), kernel)
    warps = -(-plan.block_threads // target.warp_size)
    shared = shared_layout(plan).total_bytes * plan.warp_tiles
    limited = int(resident_blocks(target, warps, shared, registers))  # type: ignore[arg-type]
    unlimited = int(resident_blocks(target, warps, shared))  # type: ignore[arg-type]
    if max(limited, 1) < unlimited:
        yield from dict.fromkeys((unlimited, (limited + unlimited + 1) // 2, limited + 1))
