"""One sweep of a 7- or 27-point stencil that streams along z, plain and retimed: shared memory and registers.

The input has a window in shared memory. The partial sums of a retimed sweep have a window of the step's own points, in
shared memory or ``private``, in registers, where that is legal.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import Retiming
from autosched.analysis.rewrites.cache_read import cache_name, insert_cache_reads
from autosched.analysis.rewrites.statement import rewrite_statements
from autosched.lang.dtypes import float64
from autosched.lang.expr import Expr, Var
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline
from autosched.lower.program import lower
from autosched.measure.simulated import simulate
from autosched.schedule.legality.validate import violations
from autosched.schedule.tilings import inlined_calls
from autosched.schedule.types import (
    ComputeAt,
    FusedProducer,
    Inlined,
    Kernel,
    Level,
    LoopKind,
    Root,
    Schedule,
    StageId,
    StageTiling,
)
from autosched.target import get_target
from benchmarks.faces import HOST, loop, measured, window

H200 = get_target("h200")
FORMS = ("plain", "retimed", "retimed private")
DIMS = ("z", "y", "x")
STEP = {"y": (8, 1), "x": (32, 2)}
"""Threads and points of a thread along each dimension, in a step."""


def own_points(name: str, at: ComputeAt, private: bool) -> FusedProducer:
    """Return a window of partial sums, of the points that a block computes in a step."""
    threads = [loop(LoopKind.THREAD, d, STEP[d][0]) for d in ("x", "y")]
    points = [loop(LoopKind.SERIAL, "z", 1), *(loop(LoopKind.SERIAL, d, STEP[d][1]) for d in ("y", "x"))]
    return FusedProducer((StageTiling(StageId(name), (*threads, *points)),), at, DIMS, private=private)


def stencil(points: int, extents: Sequence[int]) -> BoundPipeline:
    """Return a stencil of 7 or 27 points in the interior of an array, with one coefficient for each distance."""
    source, f = Input("in", float64, 3), Func("output")
    total: Expr | None = None
    for offset in itertools.product((-1, 0, 1), repeat=3):
        distance = sum(map(abs, offset))
        if distance > 1 and points == 7:
            continue
        at = tuple(Var(d) + o if o else Var(d) for d, o in zip(DIMS, offset, strict=True))
        term = source[at] * (1.0 / 3**distance)
        total = term if total is None else total + term
    assert total is not None
    f[tuple(map(Var, DIMS))] = total
    box = {d: (1, n - 1) for d, n in zip(DIMS, source.shape, strict=True)}
    return bind(Pipeline(f.over(**box)), {"in": tuple(n + 2 for n in extents)})


def sweep(points: int, extents: Sequence[int], steps: int, form: str) -> tuple[BoundPipeline, Schedule]:
    """Return one sweep as a kernel of blocks that stream along z.

    Args:
        points: Points of the stencil, 7 or 27.
        extents: Extents of the grid in z, y and x.
        steps: Steps of a block, one plane each.
        form: One of `FORMS`.
    """
    bound = stencil(points, extents)
    rewritten = bound if form == "plain" else rewrite_statements(bound, [Retiming("output", "z")])
    tile = (steps, *(math.prod(STEP[d]) for d in ("y", "x")))
    blocks = [loop(LoopKind.BLOCK, d, -(-n // k)) for d, n, k in zip(DIMS, extents, tile, strict=True)]
    inner = [loop(LoopKind.THREAD, d, STEP[d][0]) for d in ("x", "y")]
    inner += [loop(LoopKind.SERIAL, d, STEP[d][1]) for d in ("y", "x")]
    root = Root(StageTiling(HOST, (*blocks, loop(LoopKind.SERIAL, "z", steps), *inner)))
    at, staged = ComputeAt(Level.MAINLOOP, HOST, 4), cache_name("in")
    with_copies = insert_cache_reads(rewritten, ["in"])
    partial = [f for f in rewritten.funcs if f.endswith("_planes")]
    members = [own_points(f, at, form.endswith("private")) for f in partial]
    members.append(window(staged, with_copies.funcs[staged].dims, at))
    inlined = {f for f in rewritten.funcs if f != "output" and f not in partial}
    calls = inlined_calls(with_copies, [HOST, *(t.stage for m in members for t in m.tilings)], inlined)
    called = tuple(Inlined(f, calls[f]) for f in rewritten.funcs if f in calls)
    schedule = Schedule.for_pipeline(rewritten, [Kernel((root,), tuple(members), called)])
    return bound, replace(schedule, pipeline_hash=bound.pipeline.hash)


def print_sweep(points: int, extents: Sequence[int], steps: int, form: str) -> None:
    """Print instructions of a point in interior blocks, shared memory, registers, spills and simulated time."""
    bound, schedule = sweep(points, extents, steps, form)
    problems = violations(bound, schedule, H200)
    if problems:
        print(f"{points:2} points{steps:5} steps {form:16}not legal: {problems[0]}", flush=True)
        return
    program = lower(bound, schedule)
    issued, registers, spilled = measured(program)
    simulated = simulate(bound, schedule, H200, program=program)
    computed = steps * math.prod(math.prod(s) for s in STEP.values())
    shared = program.kernels[0].shared_bytes
    print(
        f"{points:2} points{steps:5} steps {form:16}{issued['interior'] / computed:6.1f} instructions, {shared:6} "
        f"shared bytes, {registers} registers, {spilled} spilled, {simulated.seconds / simulated.noise * 1e6:.0f} us",
        flush=True,
    )
