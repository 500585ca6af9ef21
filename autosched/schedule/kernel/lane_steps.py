"""Loops of producers whose lanes are those of the kernel's root, as hybrid tiles require."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autosched.schedule.plan import KernelPlan
from autosched.schedule.types import FusedProducer, Kernel, Loop, LoopKind, StageTiling


def root_lanes(kernel: Kernel) -> list[Loop]:
    """Return the thread loops of a kernel's first root that have more than one iteration."""
    return [p for p in kernel.roots[0].tiling.of_kind(LoopKind.THREAD) if p.extent > 1]


def required_points(plan: KernelPlan, producer: FusedProducer) -> dict[str, int] | None:
    """Return the points of a producer's region along its dimensions, the most of any stage; None without a region.

    Args:
        plan: The plan of its kernel.
        producer: The producer.
    """
    nests = {n.id: n for group in plan.steps for n in group}
    extents = [nests[t.stage].extents for t in producer.tilings if t.stage in nests]
    dims = producer.storage_order
    if not extents or not all(set(dims) <= set(e) for e in extents):
        return None
    return {d: max(e[d] for e in extents) for d in dims}


def with_lane_steps(
    producer: FusedProducer, lanes: Sequence[Loop], extents: Mapping[str, int], points: Mapping[str, int]
) -> FusedProducer:  # fmt: skip
    """Return a producer in whose stages given lanes compute a region step by step.

    Rewrite:
        tx=17 sx=2   ->   sx=2 tx=32            34 points, 32 lanes
        tx=17 sx=2   ->   sx=2 tx=16 sx=2       34 points, 16 lanes with two neighbouring points

    Args:
        producer: A producer in shared memory; it is then neither materialised, nor aligned, nor private.
        lanes: The thread loops of the root.
        extents: Points of the region along each dimension.
        points: Neighbouring points of a lane in a step, along dimensions with lanes; 1 along others.
    """
    dims = list(producer.storage_order)
    threads = [p for p in lanes if p.dim in dims]
    of_dim = {p.dim: p.extent for p in threads}
    steps = {d: -(-extents[d] // (n * points.get(d, 1))) for d, n in of_dim.items()}
    rest = {d: extents[d] for d in dims if d not in of_dim}
    outer = [Loop(d, LoopKind.SERIAL, n) for d, n in {**rest, **steps}.items() if n > 1 or d in rest]
    inner = [Loop(d, LoopKind.SERIAL, points[d]) for d in of_dim if points.get(d, 1) > 1]
    tilings = (
        StageTiling(t.stage, (*outer, *threads, *inner, *(p for p in t.loops if p.dim not in dims)))
        for t in producer.tilings
    )
    return replace(producer, tilings=tuple(tilings), materialised=False, aligned=None, private=False)


def step_count(producer: FusedProducer, dim: str) -> int:
    """Return the steps of a producer made by `with_lane_steps` along a dimension."""
    loops = [p for p in producer.tilings[0].loops if p.dim == dim]
    return loops[0].extent if loops and loops[0].kind is LoopKind.SERIAL else 1
