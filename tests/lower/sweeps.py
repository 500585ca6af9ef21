"""Fused sweeps of a stencil with a boundary condition in each, and kernels with sliding windows of the sweeps."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

import numpy as np

from autosched import Func, Input, Pipeline, Var, float64
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import cache_name, insert_cache_reads
from autosched.lower.ir import If, KernelIR, Partitioning, walk
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import ComputeAt, Kernel, Level, Schedule
from autosched.target import get_target
from tests.schedule.building import kernel, member, root, schedule, stage

H200 = get_target("h200")
OUTPUT = "output"


def sweeps(kind: str, extents: Sequence[int], times: int) -> BoundPipeline:
    """Return ``in`` to ``output``, float64: star stencils in sequence, each behind a boundary condition of a kind."""
    dims = ("z", "y", "x")[-len(extents) :]
    at = tuple(Var(d) for d in dims)
    source = Input("in", float64, len(extents))
    box = {d: (0, n) for d, n in zip(dims, source.shape, strict=True)}
    constant = (0.5,) if kind == "constant" else ()
    before, result = getattr(source, kind)(*constant), None
    for k in range(1, times + 1):
        result = Func(OUTPUT if k == times else f"sweep_{k}")
        neighbours = [
            before[tuple(v + move if v is along else v for v in at)] * (1 + 0.25 * n)
            for n, along in enumerate(at)
            for move in (-1, 1)
        ]
        result[at] = functools.reduce(operator.add, neighbours) * 0.125 + before[at]
        before = getattr(result, kind)(*constant, **box)
    assert result is not None
    return bind(Pipeline(result.over(**box), name=f"sweeps_{kind}"), {"in": tuple(extents)})


def random_sliding(bound: BoundPipeline, rng: np.random.Generator, *, cached: bool) -> Schedule | None:
    """Return a random kernel with sliding windows of the sweeps along the first dimension; None if it is not legal.

    Args:
        bound: The pipeline of `sweeps`.
        rng: Source of randomness.
        cached: Whether the input has a window as well.
    """
    dims, extents = bound.funcs[OUTPUT].dims, bound.funcs[OUTPUT].extents
    rows = int(rng.choice((1, 1, 2)))
    steps = int(rng.choice((3, 4, -(-extents[0] // rows))))
    along = -(-extents[0] // (steps * rows))
    inner = [int(rng.choice((4, 8))) for _ in dims[1:]]
    points = [int(rng.choice((1, 2))) for _ in dims[1:]]
    sizes = list(zip(dims[1:], extents[1:], inner, points, strict=True))
    blocks = [f"b{d}={-(-n // (t * p))}" for d, n, t, p in sizes]
    threads = [f"t{d}={t}" for d, _, t, _ in sizes[::-1]]
    serial = [f"s{d}={p}" for d, _, _, p in sizes]
    tile = " ".join([f"b{dims[0]}={along}", *blocks, f"s{dims[0]}={steps}", *threads, f"s{dims[0]}={rows}", *serial])
    location = ComputeAt(Level.MAINLOOP, stage(OUTPUT), len(dims) + 1)
    wrapped = "wrapped" in bound.pipeline.name  # blocks at an edge need whole rows

    def window(order: Sequence[str]) -> str:
        spans = [n + 10 if wrapped else t * p + 10 for _, n, t, p in sizes]
        own = [f"t{d}={t}" for d, t in zip(order[:0:-1], inner[::-1], strict=True)]
        more = [f"s{d}={-(-span // t)}" for d, span, t in zip(order[1:], spans, inner, strict=True)]
        return " ".join([*own, f"s{order[0]}={rows}", *more])

    windows = [f for f in bound.funcs if f.removeprefix("sweep_").isdigit()]
    members = [member(location, dims, **{f: window(dims)}) for f in windows]
    if cached:
        order = insert_cache_reads(bound, ["in"]).funcs[cache_name("in")].dims
        members.append(member(location, order, **{cache_name("in"): window(order)}))
    inside = {OUTPUT, *windows}
    result: Kernel = kernel(bound, [root(OUTPUT, tile)], members, [f for f in bound.funcs if f not in inside])
    if cached:
        result = (result, result.with_double_buffering(), result.with_async_copies())[rng.integers(3)]
    found = schedule(bound, result)
    return None if violations(bound, found, H200) else found


def chain_of_windows(bound: BoundPipeline, steps: int) -> Kernel:
    """Return a kernel of 16 x 8 threads with windows along z of all sweeps but the last, and of the input."""
    at, dims, staged = ComputeAt(Level.MAINLOOP, stage(OUTPUT), 4), ("z", "y", "x"), cache_name("in")
    names = [f for f in bound.funcs if f.removeprefix("sweep_").isdigit()]
    members = [member(at, dims, **{name: "tx=16 ty=8 sz=1 sy=2 sx=2"}) for name in names]
    z, y, x = insert_cache_reads(bound, ["in"]).funcs[staged].dims
    members.append(member(at, (z, y, x), **{staged: f"t{x}=16 t{y}=8 s{z}=1 s{y}=2 s{x}=2"}))
    depth, height, width = bound.funcs[OUTPUT].extents
    loops = f"bz={-(-depth // steps)} by={-(-height // 8)} bx={-(-width // 16)} sz={steps} tx=16 ty=8"
    return kernel(bound, [root(OUTPUT, loops)], members, [f for f in bound.funcs if f not in (OUTPUT, *names)])


def has_step_partition(ir: KernelIR) -> bool:
    """Return whether a kernel has interior code for some steps."""
    return any(isinstance(s, If) and s.partition is Partitioning.STEPS for s in walk(ir.body))
