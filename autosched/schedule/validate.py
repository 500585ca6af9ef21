"""Is a schedule legal for a pipeline, its shapes and a target? Small named checks, exact integers, reasons.

The same checks serve the search, loaded files and every compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.errors import ScheduleError
from autosched.schedule.checks import across, loops, members, resources, steps, streams, structure
from autosched.schedule.known import known
from autosched.schedule.plan import KernelPlan
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import Kernel, Schedule
from autosched.schedule.views import as_scheduled, view_error
from autosched.target import Target

KernelCheck = Callable[[BoundPipeline, Kernel, Target], Iterator[str]]

WELL_FORMED: tuple[KernelCheck, ...] = (
    structure.stages_exist,
    structure.roots_share_grid,
    structure.roots_are_in_order,
    structure.sources_are_available,
    structure.staged_sources_lie_outside,
    structure.inlined_are_pure,
    loops.loops_match_stage,
    loops.block_loops_come_first,
    loops.carried_loops_stay_in_order,
    loops.roots_cover_their_region,
    steps.scans_are_roots,
    steps.steps_enclose_rows,
    members.levels_are_supported,
    members.aligned_tiles_have_columns,
    members.stored_members_own_points,
    members.hosts_enclose_consumers,
    across.lanes_share_what_accumulates,
    across.lanes_have_all_terms,
    streams.streams_have_one_host,
    streams.windows_slide_under_one_definition,
    streams.streamed_points_are_held,
    streams.what_follows_reads_held_points,
    streams.stream_members_are_read_in_steps,
    streams.buffers_are_filled_ahead,
    streams.asynchronous_members_are_copies,
)
"""Checks that need no regions; the others rely on them."""


def validate(bound: BoundPipeline, schedule: Schedule, target: Target) -> None:
    """Raise unless a schedule is legal.

    Raises:
        ScheduleError: With all reasons found, each naming kernel, stage and what would be legal.
    """
    found = reasons(bound, schedule, target)
    if found:
        raise ScheduleError(f"illegal schedule for {bound.pipeline.name!r} on {target.name}: " + "; ".join(found))


def reasons(bound: BoundPipeline, schedule: Schedule, target: Target) -> list[str]:
    """Return why a schedule is illegal; empty when it is legal."""
    bound, own = bound.rewritten, bound.root_pipeline.pipeline.hash
    if schedule.pipeline_hash != own:
        return [
            f"it was made for another pipeline ({schedule.pipeline_hash[:12]}, "
            f"this one is {own[:12]}); make a new one with autosched.schedule"
        ]
    problem = view_error(bound, schedule)
    if problem:
        return [problem]
    bound = as_scheduled(bound, schedule)
    kernels = list(enumerate(schedule.kernels))
    staged = [insert_cache_reads(bound, kernel.staged) for kernel in schedule.kernels]
    found = [f"kernel {k}: {r}" for k, kernel in kernels for r in structure.stages_exist(staged[k], kernel, target)]
    if found:
        return found
    found = list(structure.every_stage_is_computed(bound, schedule))
    found += [f"kernel {k}: {r}" for k, kernel in kernels for r in kernel_reasons(bound, kernel, target)]
    if not found:
        found += resources.workspace_fits(bound, schedule, target)
    return found


def kernel_reasons(
    bound: BoundPipeline, kernel: Kernel, target: Target, plan: KernelPlan | None = None
) -> list[str]:  # fmt: skip
    """Return why one kernel is illegal, whatever the others are; its plan is made if it is not given."""
    bound = insert_cache_reads(bound.rewritten, kernel.staged)
    return list(known(bound, kernel, target, lambda: tuple(_kernel_reasons(bound, kernel, target, plan))))


def _kernel_reasons(bound: BoundPipeline, kernel: Kernel, target: Target, plan: KernelPlan | None) -> list[str]:
    for check in WELL_FORMED:
        found = list(check(bound, kernel, target))
        if found:
            return found
    try:
        plan = plan or plan_kernel(bound, kernel)
    except ScheduleError as e:
        return [str(e)]
    found = list(members.members_cover_their_region(plan))
    found = found or list(members.stored_tiles_have_owners(plan))
    found = found or list(members.stored_members_leave_nothing_out(plan))
    found = found or list(members.thread_members_stay_in_registers(plan))
    found = found or list(members.unrolled_code_is_small(plan))
    found = found or list(across.lanes_are_of_one_warp(plan))
    return found or list(resources.threads_fit(plan, target)) + list(resources.shared_memory_fits(plan, target))
