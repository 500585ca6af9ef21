"""Is a schedule legal for a pipeline, its shapes and a target? Small named checks, exact integers, reasons.

The same checks serve the search, loaded files and every compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.errors import ScheduleError
from autosched.schedule.kernel.plan_cache import cached_plan
from autosched.schedule.legality import (
    dataflow,
    fused_producers,
    loops,
    mainloops,
    resources,
    row_scans,
    warp_reductions,
)
from autosched.schedule.plan import KernelPlan
from autosched.schedule.planner import plan_kernel
from autosched.schedule.rewrites import apply_rewrites, rewrite_error
from autosched.schedule.types import Kernel, Schedule
from autosched.target import Target

KernelCheck = Callable[[BoundPipeline, Kernel, Target], Iterator[str]]

WELL_FORMED: tuple[KernelCheck, ...] = (
    dataflow.stages_exist,
    dataflow.roots_share_grid,
    dataflow.roots_are_in_order,
    dataflow.sources_are_available,
    dataflow.cache_reads_are_outside_kernel,
    dataflow.inlined_are_pure,
    loops.loops_match_stage,
    loops.block_loops_come_first,
    loops.carried_loops_stay_in_order,
    loops.roots_cover_their_region,
    row_scans.scans_are_roots,
    row_scans.steps_enclose_rows,
    fused_producers.levels_are_supported,
    fused_producers.tile_alignments_are_valid,
    fused_producers.stored_members_own_points,
    fused_producers.consumers_are_inside_host,
    warp_reductions.warp_reductions_are_associative,
    warp_reductions.lanes_cover_all_terms,
    mainloops.mainloop_has_one_consumer,
    mainloops.windows_slide_under_one_definition,
    mainloops.mainloop_outputs_are_register_blocked,
    mainloops.epilogue_reads_register_tile,
    mainloops.stream_members_are_read_in_steps,
    mainloops.double_buffers_are_copies,
    mainloops.asynchronous_members_are_copies,
)
"""Checks that need no regions; the others rely on them."""


def validate(bound: BoundPipeline, schedule: Schedule, target: Target) -> None:
    """Raise unless a schedule is legal.

    Raises:
        ScheduleError: With all reasons found, each naming kernel, stage and what would be legal.
    """
    found = violations(bound, schedule, target)
    if found:
        raise ScheduleError(f"illegal schedule for {bound.pipeline.name!r} on {target.name}: " + "; ".join(found))


def violations(bound: BoundPipeline, schedule: Schedule, target: Target) -> list[str]:
    """Return why a schedule is illegal; empty when it is legal."""
    bound, own = bound.rewritten, bound.root_pipeline.pipeline.hash
    if schedule.pipeline_hash != own:
        return [
            f"it was made for another pipeline ({schedule.pipeline_hash[:12]}, "
            f"this one is {own[:12]}); make a new one with autosched.schedule"
        ]
    problem = rewrite_error(bound, schedule)
    if problem:
        return [problem]
    bound = apply_rewrites(bound, schedule)
    kernels = list(enumerate(schedule.kernels))
    staged = [insert_cache_reads(bound, kernel.cache_reads) for kernel in schedule.kernels]
    found = [f"kernel {k}: {r}" for k, kernel in kernels for r in dataflow.stages_exist(staged[k], kernel, target)]
    if found:
        return found
    found = list(dataflow.every_stage_is_computed(bound, schedule))
    found += [f"kernel {k}: {r}" for k, kernel in kernels for r in kernel_violations(bound, kernel, target)]
    if not found:
        found += resources.workspace_fits(bound, schedule, target)
    return found


def kernel_violations(
    bound: BoundPipeline, kernel: Kernel, target: Target, plan: KernelPlan | None = None
) -> list[str]:  # fmt: skip
    """Return why one kernel is illegal, whatever the others are; its plan is made if it is not given."""
    bound = insert_cache_reads(bound.rewritten, kernel.cache_reads)
    return list(cached_plan(bound, kernel, target, lambda: tuple(_kernel_reasons(bound, kernel, target, plan))))


def _kernel_reasons(bound: BoundPipeline, kernel: Kernel, target: Target, plan: KernelPlan | None) -> list[str]:
    for check in WELL_FORMED:
        found = list(check(bound, kernel, target))
        if found:
            return found
    try:
        plan = plan or plan_kernel(bound, kernel)
    except ScheduleError as e:
        return [str(e)]
    found = list(fused_producers.members_cover_their_region(plan))
    found = found or list(fused_producers.stored_tiles_have_owners(plan))
    found = found or list(fused_producers.stored_members_leave_nothing_out(plan))
    found = found or list(fused_producers.thread_members_stay_in_registers(plan))
    found = found or list(fused_producers.unrolled_code_is_small(plan))
    found = found or list(warp_reductions.lanes_fit_one_warp(plan))
    return found or list(resources.threads_fit(plan, target)) + list(resources.shared_memory_fits(plan, target))
