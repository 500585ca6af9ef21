"""Kernels of a schedule from a sketch and one row of tile sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.lane_loops import LaneLoop
from autosched.featurize.featurizer import SketchFeaturizer
from autosched.featurize.regions.scalar_regions import points_per_block
from autosched.featurize.scaling.row_scans import as_all_steps
from autosched.featurize.scaling.warp_reductions import from_lane_loops
from autosched.featurize.sketch.sketch import (
    ComputeLocation,
    NestOrder,
    inner_order,
    lane_sizes,
    location_storage,
    member_dims,
    shared_tile,
    thread_order,
)
from autosched.schedule.kernel.warp_tiles import split_warp_loops
from autosched.schedule.plan import KernelPlan
from autosched.schedule.planner import plan_kernel
from autosched.schedule.tilings import inlined_calls
from autosched.schedule.types import (
    ComputeAt,
    FusedProducer,
    Inlined,
    Kernel,
    Level,
    Loop,
    LoopKind,
    Root,
    StageId,
    StageTiling,
)

ROUNDS = 4
"""Most times that loops of producers are widened; regions of thread-level producers follow from their host's loops."""


def build_kernel(model: SketchFeaturizer, params: NDArray[np.int64]) -> Kernel:
    """Return the kernel of one row of parameters, ``int64[columns]``.

    Loops of one iteration are left out, except those of blocks and reductions. Producers cover the regions that the
    kernel's plan requires in any block, which may exceed those of the middle block.
    """
    return planned_kernel(model, params)[0]


def planned_kernel(model: SketchFeaturizer, params: NDArray[np.int64]) -> tuple[Kernel, KernelPlan | None]:
    """Return the kernel of `build_kernel` and its plan, None if the regions have not converged in `ROUNDS`."""
    covered = points_per_block(model, params)
    kernel = _build(model, params, covered)
    for _ in range(ROUNDS):
        plan = plan_kernel(model.bound, kernel)
        required = _required(model, plan)
        if required == covered:
            return _with_warps(model, kernel, plan)
        kernel, covered = _build(model, params, required), required
    return _with_warps(model, kernel, None)


def _with_warps(
    model: SketchFeaturizer, kernel: Kernel, plan: KernelPlan | None
) -> tuple[Kernel, KernelPlan | None]:  # fmt: skip
    """Return a kernel of blocks of one warp, and its plan, with the warps of its sketch."""
    if not model.sketch.warps:
        return kernel, plan
    kernel = split_warp_loops(kernel, model.sketch.warps)
    return kernel, None if plan is None else plan_kernel(model.bound, kernel)


def _required(model: SketchFeaturizer, plan: KernelPlan) -> dict[str, tuple[int, ...]]:
    """Return the points of each fused producer's dimensions that the exact plan requires."""
    required: dict[str, tuple[int, ...]] = {}
    for group in (*plan.steps, *plan.thread_nests):
        for nest in group:
            if nest.at is not None:
                dims = model.bound.funcs[nest.stage.func].dims
                points = tuple(
                    max(nest.extents.get(d, 1), 1) for d in dims
                )  # an update may lack loops over some dimensions
                required[nest.stage.func] = tuple(map(max, points, required.get(nest.stage.func, points)))
    return required


def _build(model: SketchFeaturizer, params: NDArray[np.int64], required: Mapping[str, tuple[int, ...]]) -> Kernel:
    """Return the kernel whose producers have the required points in each dimension."""
    bound, sketch, layout = model.bound, model.sketch, model.layout
    _, count = model.grid.blocks(params[None, :])
    dims = model.grid.dims
    tilings: dict[StageId, StageTiling] = {}
    lanes = lane_sizes(bound, sketch.stages)  # which blocks do not divide
    blocks = [Loop(d, LoopKind.BLOCK, int(n)) for d, n in zip(dims, count[0], strict=True) if d not in lanes]
    for stage in sketch.stages:
        root_threads, root_serial = params[layout.root_threads], params[layout.root_serial]
        inside = _thread_loops(bound, sketch.order(stage), dims, root_threads, root_serial)
        tilings[stage] = StageTiling(stage, (*blocks, *inside))
    for location in sketch.locations:
        extents = np.array(required[location.func], np.int64)
        threads = params[layout.threads_of(location.func)] if location.level is Level.BLOCK else np.ones_like(extents)
        serial = -(-extents // threads)
        fewest = -(-extents // serial)  # no thread without points
        for stage in _stages(bound, location.func):
            dims = member_dims(bound, stage) if location.level is Level.BLOCK else bound.funcs[location.func].dims
            loops = sketch.order(stage)
            apart = [d in loops.interleaved for d in bound.funcs[location.func].dims]
            divided = np.where(apart, np.minimum(threads, extents), fewest), serial
            tile = loops.tile or (shared_tile(bound, stage) if location.level is Level.BLOCK else ())
            if tile:
                terms = [bound.stage(*stage).loop(d).extent for d in dims[len(extents) :]]
                tile_threads, least = np.array(tile, np.int64).T
                tile_threads = np.where(tile_threads > 0, tile_threads, [*divided[0], *(1 for _ in terms)])
                divided = tile_threads, np.maximum(-(-np.array([*extents, *terms]) // tile_threads), least)
            tilings[stage] = StageTiling(stage, _thread_loops(bound, loops, dims, *divided))
    members = []
    for location in sketch.locations:
        of_stages = tuple(tilings[s] for s in _stages(bound, location.func))
        at = ComputeAt(location.level, location.host, _depth(model, tilings[location.host], location))
        members.append(
            FusedProducer(
                of_stages,
                at,
                location_storage(bound.funcs[location.func], location),
                location.stored,
                location.aligned,
                private=location.private,
            )
        )
    calls = inlined_calls(bound, list(tilings), set(sketch.inlined))
    order = list(bound.funcs)
    kernel = Kernel(
        tuple(Root(tilings[s]) for s in sketch.stages),
        tuple(sorted(members, key=lambda m: order.index(m.func))),
        tuple(Inlined(f, calls[f]) for f in sorted(calls, key=order.index)),
        sketch.linear_threads,
        sketch.resident_blocks,
    )
    return as_all_steps(bound, from_lane_loops(kernel, [LaneLoop(*one) for one in bound.lane_loops]))


def _stages(bound: BoundPipeline, func: str) -> list[StageId]:
    return [StageId(func, s.number) for s in bound.funcs[func].nonempty_stages]


def _thread_loops(
    bound: BoundPipeline, listed: NestOrder, dims: Sequence[str], threads: NDArray[np.int64],
    serial: NDArray[np.int64],
) -> tuple[Loop, ...]:  # fmt: skip
    """Return thread loops, then reductions, then loops over points, unless ``listed`` has another order.

    Loops over interleaved points come first.
    """
    func, number = listed.stage
    stage = bound.stage(func, number)
    looped = [d for d in dims if any(loop.name == d for loop in stage.loops)]
    extent = {d: int(n) for d, n in zip(dims, threads, strict=True)}
    points = {d: int(n) for d, n in zip(dims, serial, strict=True)}
    order = thread_order(bound, func, dims, listed.threads)
    inside = [
        Loop(d, LoopKind.SERIAL, points[d]) if d in points else Loop(d, LoopKind.REDUCTION, stage.loop(d).extent)
        for d in inner_order(stage, dims, listed.inner)
        if points.get(d, 2) > 1 or (extent[d] == 1 and stage.loop(d).reduction)  # reductions are always listed
    ]
    across = [Loop(d, LoopKind.THREAD, extent[d]) for d in order if d in looped and extent[d] > 1]
    apart = [p for p in inside if p.dim in listed.interleaved and extent[p.dim] > 1]
    return (*apart, *across, *(p for p in inside if p not in apart))


def _depth(model: SketchFeaturizer, host: StageTiling, location: ComputeLocation) -> int:
    """Return the number of the host's loops that enclose a fused producer."""
    kinds = (LoopKind.BLOCK,) if location.level is Level.BLOCK else (LoopKind.BLOCK, LoopKind.THREAD)
    start = 1 + max((k for k, p in enumerate(host.loops) if p.kind in kinds), default=-1)
    if not location.in_terms:
        return start
    is_root = model.sketch.location(host.stage.func) is None
    dims = model.grid.dims if is_root else member_dims(model.bound, host.stage)
    around = set(dims[: location.enclosing])
    enclosed = [k for k, p in enumerate(host.loops) if p.kind is LoopKind.REDUCTION or p.dim in around]
    return max([start, *(k + 1 for k in enclosed)])
