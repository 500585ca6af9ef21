"""From a structure and one row of tile sizes to the kernel of a schedule."""

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
    member_dims,
    shared_tile,
    spot_storage,
    thread_order,
)
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
"""How often the loops of Members are widened at most; what a THREAD Member needs follows from its host's loops."""


def build_kernel(model: SketchFeaturizer, params: NDArray[np.int64]) -> Kernel:
    """Return the kernel that one row of parameters ``int64[columns]`` describes.

    Loops of one iteration are left out, except those of blocks and reductions. Members cover what the plan of the
    kernel says they must in any block, which may be more than the middle one needs.
    """
    return planned_kernel(model, params)[0]


def planned_kernel(model: SketchFeaturizer, params: NDArray[np.int64]) -> tuple[Kernel, KernelPlan | None]:
    """Return what `build_kernel` does and the plan of that kernel, None if what its Members cover has not settled."""
    covered = points_per_block(model, params)
    kernel = _built(model, params, covered)
    for _ in range(ROUNDS):
        plan = plan_kernel(model.bound, kernel)
        needed = _needed(model, plan)
        if needed == covered:
            return kernel, plan
        kernel, covered = _built(model, params, needed), needed
    return kernel, None


def _needed(model: SketchFeaturizer, plan: KernelPlan) -> dict[str, tuple[int, ...]]:
    """Return the points of every Member's dimensions that its host needs, by the exact plan."""
    found: dict[str, tuple[int, ...]] = {}
    for group in (*plan.steps, *plan.thread_nests):
        for nest in group:
            if nest.at is not None:
                dims = model.bound.funcs[nest.stage.func].dims
                points = tuple(max(nest.extents.get(d, 1), 1) for d in dims)  # an update need not walk every dimension
                found[nest.stage.func] = tuple(map(max, points, found.get(nest.stage.func, points)))
    return found


def _built(model: SketchFeaturizer, params: NDArray[np.int64], needed: Mapping[str, tuple[int, ...]]) -> Kernel:
    """Return the kernel whose Members have so many points in each dimension."""
    bound, structure, layout = model.bound, model.structure, model.layout
    _, count = model.grid.blocks(params[None, :])
    dims = model.grid.dims
    tilings: dict[StageId, StageTiling] = {}
    lanes = lane_sizes(bound, structure.stages)  # which blocks do not divide
    blocks = [Loop(d, LoopKind.BLOCK, int(n)) for d, n in zip(dims, count[0], strict=True) if d not in lanes]
    for stage in structure.stages:
        root_threads, root_serial = params[layout.root_threads], params[layout.root_serial]
        inside = _thread_loops(bound, structure.order(stage), dims, root_threads, root_serial)
        tilings[stage] = StageTiling(stage, (*blocks, *inside))
    for spot in structure.spots:
        extents = np.array(needed[spot.func], np.int64)
        threads = params[layout.threads_of(spot.func)] if spot.level is Level.BLOCK else np.ones_like(extents)
        serial = -(-extents // threads)
        threads = -(-extents // serial)  # none that would have no point
        for stage in _stages(bound, spot.func):
            dims = member_dims(bound, stage) if spot.level is Level.BLOCK else bound.funcs[spot.func].dims
            loops, divided = structure.order(stage), (threads, serial)
            tile = loops.tile or (shared_tile(bound, stage) if spot.level is Level.BLOCK else ())
            if tile:
                terms = [bound.stage(*stage).loop(d).extent for d in dims[len(extents) :]]
                own, least = np.array(tile, np.int64).T
                own = np.where(own > 0, own, [*threads, *(1 for _ in terms)])
                divided = own, np.maximum(-(-np.array([*extents, *terms]) // own), least)
            tilings[stage] = StageTiling(stage, _thread_loops(bound, loops, dims, *divided))
    members = []
    for spot in structure.spots:
        own = tuple(tilings[s] for s in _stages(bound, spot.func))
        at = ComputeAt(spot.level, spot.host, _depth(model, tilings[spot.host], spot))
        members.append(FusedProducer(own, at, spot_storage(bound.funcs[spot.func], spot), spot.stored, spot.aligned))
    calls = inlined_calls(bound, list(tilings), set(structure.inlined))
    order = list(bound.funcs)
    found = Kernel(
        tuple(Root(tilings[s]) for s in structure.stages),
        tuple(sorted(members, key=lambda m: order.index(m.func))),
        tuple(Inlined(f, calls[f]) for f in sorted(calls, key=order.index)),
    )
    return as_all_steps(bound, from_lane_loops(found, [LaneLoop(*one) for one in bound.lane_loops]))


def _stages(bound: BoundPipeline, func: str) -> list[StageId]:
    return [StageId(func, s.number) for s in bound.funcs[func].nonempty_stages]


def _thread_loops(
    bound: BoundPipeline, listed: NestOrder, dims: Sequence[str], threads: NDArray[np.int64],
    serial: NDArray[np.int64],
) -> tuple[Loop, ...]:  # fmt: skip
    """Return thread loops, then reductions, then the points of the thread, unless they are in an order of their own."""
    func, number = listed.stage
    stage = bound.stage(func, number)
    own = [d for d in dims if any(loop.name == d for loop in stage.loops)]
    extent = {d: int(n) for d, n in zip(dims, threads, strict=True)}
    points = {d: int(n) for d, n in zip(dims, serial, strict=True)}
    order = thread_order(bound, func, dims, listed.threads)
    inside = [
        Loop(d, LoopKind.SERIAL, points[d]) if d in points else Loop(d, LoopKind.REDUCTION, stage.loop(d).extent)
        for d in inner_order(stage, dims, listed.inner)
        if points.get(d, 2) > 1 or (extent[d] == 1 and stage.loop(d).reduction)  # reductions are always listed
    ]
    return (*(Loop(d, LoopKind.THREAD, extent[d]) for d in order if d in own and extent[d] > 1), *inside)


def _depth(model: SketchFeaturizer, host: StageTiling, spot: ComputeLocation) -> int:
    """Return how many of the host's loops enclose a Member."""
    kinds = (LoopKind.BLOCK,) if spot.level is Level.BLOCK else (LoopKind.BLOCK, LoopKind.THREAD)
    start = 1 + max((k for k, p in enumerate(host.loops) if p.kind in kinds), default=-1)
    if not spot.in_terms:
        return start
    is_root = model.structure.spot(host.stage.func) is None
    dims = model.grid.dims if is_root else member_dims(model.bound, host.stage)
    around = set(dims[: spot.enclosing])
    enclosed = [k for k, p in enumerate(host.loops) if p.kind is LoopKind.REDUCTION or p.dim in around]
    return max([start, *(k + 1 for k in enclosed)])
