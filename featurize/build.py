"""From a structure and one row of tile sizes to the kernel of a schedule."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound import BoundPipeline
from autosched.featurize.model import KernelModel
from autosched.featurize.structure import inner_reductions, storage_order, thread_order
from autosched.schedule.tiles import inlined_in
from autosched.schedule.types import At, Inlined, Kernel, Level, Loop, LoopKind, Member, Root, StageId, StageTiling


def build_kernel(model: KernelModel, params: NDArray[np.int64]) -> Kernel:
    """Return the kernel that one row of parameters ``int64[columns]`` describes.

    Loops of one iteration are left out, except those of blocks and reductions.
    """
    bound, structure, layout = model.bound, model.structure, model.layout
    geometry = model.geometry.build(params[None, :])
    _, count = model.geometry.grid(params[None, :])
    dims = model.geometry.dims
    tilings: dict[StageId, StageTiling] = {}
    blocks = [Loop(d, LoopKind.BLOCK, int(n)) for d, n in zip(dims, count[0], strict=True)]
    for stage in structure.stages:
        inside = _thread_loops(bound, stage, dims, params[layout.root_threads], params[layout.root_serial])
        tilings[stage] = StageTiling(stage, (*blocks, *inside))
    for spot in structure.spots:
        if spot.level is Level.BLOCK:
            threads = params[layout.threads_of(spot.func)]
            serial = -(-geometry.extents[spot.func][0] // threads)
            threads = -(-geometry.extents[spot.func][0] // serial)  # none that would have no point
            func = bound.funcs[spot.func]
            for stage in _stages(bound, spot.func):
                tilings[stage] = StageTiling(stage, _thread_loops(bound, stage, func.dims, threads, serial))
    for nest in geometry.nests:
        if nest.level is Level.THREAD:
            ones = np.ones_like(nest.serial[0])
            tilings[nest.id] = StageTiling(nest.id, _thread_loops(bound, nest.id, nest.dims, ones, nest.serial[0]))
    members = []
    for spot in structure.spots:
        own = tuple(tilings[s] for s in _stages(bound, spot.func))
        at = At(spot.level, spot.host, _depth(model, tilings[spot.host], spot.enclosing, spot.level))
        members.append(Member(own, at, storage_order(bound.funcs[spot.func])))
    calls = inlined_in(bound, list(tilings), set(structure.inlined))
    order = list(bound.funcs)
    return Kernel(
        tuple(Root(tilings[s]) for s in structure.stages),
        tuple(sorted(members, key=lambda m: order.index(m.func))),
        tuple(Inlined(f, calls[f]) for f in sorted(calls, key=order.index)),
    )


def _stages(bound: BoundPipeline, func: str) -> list[StageId]:
    return [StageId(func, s.number) for s in bound.funcs[func].stages if s.values and not s.is_empty]


def _thread_loops(
    bound: BoundPipeline, id_: StageId, dims: Sequence[str], threads: NDArray[np.int64], serial: NDArray[np.int64]
) -> tuple[Loop, ...]:
    """Return thread loops, then reductions, then the points of the thread, outermost dimension first."""
    stage = bound.stage(id_.func, id_.number)
    own = [d for d in dims if any(loop.name == d for loop in stage.loops)]
    extent = {d: int(n) for d, n in zip(dims, threads, strict=True)}
    points = {d: int(n) for d, n in zip(dims, serial, strict=True)}
    order = thread_order(bound, id_.func, dims)
    return (
        *(Loop(d, LoopKind.THREAD, extent[d]) for d in order if d in own and extent[d] > 1),
        *(Loop(d, LoopKind.REDUCTION, stage.loop(d).extent) for d in inner_reductions(stage, dims)),
        *(Loop(d, LoopKind.SERIAL, points[d]) for d in own if points[d] > 1),
    )


def _depth(model: KernelModel, host: StageTiling, enclosing: int, level: Level) -> int:
    kinds = (LoopKind.BLOCK,) if level is Level.BLOCK else (LoopKind.BLOCK, LoopKind.THREAD)
    start = 1 + max((k for k, p in enumerate(host.loops) if p.kind in kinds), default=-1)
    if level is Level.BLOCK or enclosing == 0:
        return start
    spot = model.structure.spot(host.stage.func)
    dims = model.geometry.dims if spot is None else model.bound.funcs[host.stage.func].dims
    around = set(dims[:enclosing])
    depth = start
    for loop in host.loops[start:]:
        if loop.kind is LoopKind.REDUCTION or loop.dim in around:
            depth += 1
    return depth
