"""Legality of a schedule for a pipeline, its shapes and a target: named checks that give reasons.

The search, loaded files and every compilation use the same checks.
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
    hybrid_tiles,
    linear_threads,
    loops,
    mainloops,
    private_producers,
    resident_blocks,
    resources,
    scan_steps,
    warp_loops,
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
    warp_loops.warp_loops_are_over_roots,
    loops.carried_loops_stay_in_order,
    loops.roots_cover_their_region,
    warp_loops.warp_tiles_stand_alone,
    warp_loops.every_warp_has_tiles,
    scan_steps.scans_are_roots,
    scan_steps.steps_enclose_rows,
    fused_producers.levels_are_supported,
    fused_producers.tile_alignments_are_valid,
    fused_producers.materialised_producers_are_pure,
    fused_producers.consumers_are_inside_host,
    private_producers.private_producers_are_pure,
    hybrid_tiles.hybrid_tiles_are_of_one_warp,
    warp_reductions.warp_reductions_are_associative,
    warp_reductions.lanes_cover_all_terms,
    mainloops.mainloop_has_one_consumer,
    mainloops.sliding_window_has_one_pure_root,
    mainloops.mainloop_outputs_are_register_blocked,
    mainloops.epilogue_reads_register_tile,
    mainloops.mainloop_producers_are_read_in_their_step,
    mainloops.double_buffers_are_copies,
    mainloops.async_copies_are_cache_reads,
)
"""Checks without region inference; the checks on plans rely on them."""

PLAN_CHECKS: tuple[Callable[[KernelPlan], Iterator[str]], ...] = (
    fused_producers.producers_cover_their_region,
    fused_producers.materialised_tiles_have_owners,
    fused_producers.owned_points_cover_their_func,
    fused_producers.thread_producers_stay_in_registers,
    private_producers.private_elements_belong_to_their_thread,
    hybrid_tiles.hybrid_elements_are_in_known_lanes,
    fused_producers.unrolled_code_is_small,
    warp_reductions.lanes_fit_one_warp,
    warp_loops.stages_fit_one_warp,
    linear_threads.linear_threads_are_independent,
)
"""Checks on the plan of a kernel, in order; each relies on the ones before it."""


def validate(bound: BoundPipeline, schedule: Schedule, target: Target) -> None:
    """Raise unless a schedule is legal.

    Raises:
        ScheduleError: With the reasons, which name kernel, stage and a legal choice.
    """
    reasons = violations(bound, schedule, target)
    if reasons:
        raise ScheduleError(f"illegal schedule for {bound.pipeline.name!r} on {target.name}: " + "; ".join(reasons))


def violations(bound: BoundPipeline, schedule: Schedule, target: Target) -> list[str]:
    """Return why a schedule is illegal, empty if it is legal."""
    bound, expected = bound.rewritten, bound.root_pipeline.pipeline.hash
    if schedule.pipeline_hash != expected:
        return [
            f"it was made for another pipeline ({schedule.pipeline_hash[:12]}, "
            f"this one is {expected[:12]}); make a new one with autosched.schedule"
        ]
    problem = rewrite_error(bound, schedule)
    if problem:
        return [problem]
    bound = apply_rewrites(bound, schedule)
    kernels = list(enumerate(schedule.kernels))
    cached = [insert_cache_reads(bound, kernel.cache_reads) for kernel in schedule.kernels]
    reasons = [f"kernel {k}: {r}" for k, kernel in kernels for r in dataflow.stages_exist(cached[k], kernel, target)]
    if reasons:
        return reasons
    reasons = list(dataflow.every_stage_is_computed(bound, schedule))
    reasons += [f"kernel {k}: {r}" for k, kernel in kernels for r in kernel_violations(bound, kernel, target)]
    if not reasons:
        reasons += resources.workspace_fits(bound, schedule, target)
    return reasons


def kernel_violations(
    bound: BoundPipeline, kernel: Kernel, target: Target, plan: KernelPlan | None = None
) -> list[str]:  # fmt: skip
    """Return why one kernel is illegal by itself, empty if it is legal; ``plan`` is made if it is None."""
    bound = insert_cache_reads(bound.rewritten, kernel.cache_reads)
    return list(cached_plan(bound, kernel, target, lambda: tuple(_check_kernel(bound, kernel, target, plan))))


def _check_kernel(bound: BoundPipeline, kernel: Kernel, target: Target, plan: KernelPlan | None) -> list[str]:
    for check in WELL_FORMED:
        reasons = list(check(bound, kernel, target))
        if reasons:
            return reasons
    try:
        plan = plan or plan_kernel(bound, kernel)
    except ScheduleError as e:
        return [str(e)]
    for plan_check in PLAN_CHECKS:
        reasons = list(plan_check(plan))
        if reasons:
            return reasons
    reasons = [*resources.threads_fit(plan, target), *resources.shared_memory_fits(plan, target)]
    return reasons or list(resident_blocks.resident_blocks_fit(plan, target))
