"""Launch bounds that keep the registers of a thread within the limit of a guide."""

from __future__ import annotations

from dataclasses import replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.schedule.kernel.register_limit import resident_blocks_for
from autosched.schedule.planner import plan_kernel
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Kernel, Schedule
from autosched.search.guidance.guide import Guide
from autosched.target import Target


def with_register_limits(bound: BoundPipeline, schedule: Schedule, guide: Guide, target: Target) -> Schedule:
    """Return a schedule whose kernels have as many resident blocks as the limits of a guide on registers take.

    Args:
        bound: The pipeline, with or without the rewrites of the schedule.
        schedule: A legal schedule.
        guide: The guide.
        target: The device; schedules for a CPU are returned as they are.
    """
    if target.kind != "cuda" or not has_register_limits(guide):
        return schedule
    bound = apply_rewrites(bound.rewritten, schedule)
    return replace(schedule, kernels=tuple(_limited(bound, k, guide, target) for k in schedule.kernels))


def has_register_limits(guide: Guide) -> bool:
    """Return whether a guide limits the registers of some kernel."""
    return any(k.registers is not None for k in (guide.every, *guide.kernels.values()))


def threads_of(bound: BoundPipeline, kernel: Kernel) -> int:
    """Return the threads of a block."""
    return plan_kernel(insert_cache_reads(bound, kernel.cache_reads), kernel).block_threads


def _limited(bound: BoundPipeline, kernel: Kernel, guide: Guide, target: Target) -> Kernel:
    registers = guide.of(kernel.root_funcs[0]).registers if kernel.roots else None
    if registers is None:
        return kernel
    blocks = resident_blocks_for(target, threads_of(bound, kernel), registers)
    return replace(kernel, resident_blocks=max(blocks, kernel.resident_blocks))
