"""Rounds of dependent loads, against the chains of lowered code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autosched import Func, Input, Pipeline, RDom, Var, cast, clamp, float32, int32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import NestOrder
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel, described_points
from autosched.lower.program import lower
from autosched.measure.simulated.count import count_kernel
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import (
    ComputeAt,
    FusedProducer,
    Kernel,
    Level,
    Loop,
    LoopKind,
    Root,
    Schedule,
    StageId,
    StageTiling,
)
from tests.featurize.random_kernels import H200
from tests.featurize.test_index_instructions import kernels

y, x = Var("y"), Var("x")
A = Input("a", float32, 2)
SIZES = {"a": (64, 512)}
BLOCK, THREAD, SERIAL, REDUCTION = LoopKind.BLOCK, LoopKind.THREAD, LoopKind.SERIAL, LoopKind.REDUCTION


def bound_of(out: Func) -> BoundPipeline:
    return bind(Pipeline([out.over(y=(0, 64), x=(0, 64))]), SIZES)


def rounds(bound: BoundPipeline, kernel: Kernel) -> tuple[dict[str, float], float]:
    """Return the rounds of global loads of each stage, and the chain of the code."""
    sketch, params = describe_kernel(bound, kernel)
    model = Featurizer(bound, H200).model(sketch)
    found = model.evaluate(np.array([(*params, *described_points(bound, kernel))], np.int64)).features[0]
    mine = {str(s): float(found[k, INDEX["global_rounds_per_thread"]]) for k, s in enumerate(model.rows)}
    (code,) = lower(bound, Schedule.for_pipeline(bound, (kernel,))).kernels
    return mine, count_kernel(code).total("chain_global")


def tiling(stage: StageId, **extents: tuple[LoopKind, int] | list[tuple[LoopKind, int]]) -> StageTiling:
    loops = [(d, e) for d, listed in extents.items() for e in (listed if isinstance(listed, list) else [listed])]
    rank = [BLOCK, THREAD, SERIAL, REDUCTION]
    ordered = sorted(loops, key=lambda one: rank.index(one[1][0]))
    return StageTiling(stage, tuple(Loop(d, kind, n) for d, (kind, n) in ordered if n > 1 or kind is BLOCK))


def sums(host: Func, stage: Func, terms: int) -> None:
    """Make ``stage`` a sum of rows of the input, which ``host`` reads at its own point."""
    k = RDom("k", k=terms)
    stage[y, x] = 0.0
    stage[y, x] += A[y, x + k.k]
    host[y, x] = stage[y, x] * 2.0


def test_rounds_match_the_code_of_most_kernels() -> None:
    both = [(k.summed("global_rounds_per_thread"), k.work.total("chain_global")) for k in kernels()]
    ratios = np.array([mine / code for mine, code in both if code >= 1])
    assert len(ratios) > 50
    assert np.mean(np.abs(np.log(ratios)) < np.log(1.25)) > 0.75


def test_a_loaded_index_takes_two_rounds() -> None:
    for by_data in (False, True):
        out, k = Func("out"), RDom("k", k=256)
        out[y, x] = 0.0
        column = clamp(cast(int32, A[y, k.k]), 0, 511) if by_data else k.k
        out[y, x] += A[y, column]
        stages = [StageId("out", 0), StageId("out", 1)]
        loops = {"y": (BLOCK, 64), "x": [(BLOCK, 2), (THREAD, 32)]}
        roots = [tiling(stages[0], **loops), tiling(stages[1], **loops, **{"k.k": (REDUCTION, 256)})]
        mine, code = rounds(bound_of(out), Kernel(tuple(map(Root, roots)), (), ()))
        assert mine["out.1"] == code == 256 / 4 * (1 + by_data)


def test_loops_around_nested_producers_count_every_iteration() -> None:
    inner, middle, out = Func("inner"), Func("middle"), Func("out")
    sums(middle, inner, 256)
    out[y, x] = middle[y, x] + 1.0
    root = StageId("out")
    host = tiling(root, y=[(BLOCK, 16), (SERIAL, 4)], x=[(BLOCK, 1), (THREAD, 8), (SERIAL, 8)])
    members = (
        FusedProducer(
            (tiling(StageId("inner", 0)), tiling(StageId("inner", 1), **{"k.k": (REDUCTION, 256)})),
            ComputeAt(Level.THREAD, StageId("middle"), 0), ("y", "x"),
        ),
        FusedProducer((tiling(StageId("middle")),), ComputeAt(Level.THREAD, root, len(host.loops)), ("y", "x")),
    )  # fmt: skip
    mine, code = rounds(bound_of(out), Kernel((Root(host),), members, ()))
    assert mine["inner.1"] == code == 4 * 8 * 256 / 4


def updated(threads: int) -> Kernel:
    """Return a kernel with a block-level producer whose update has other threads than its first stage."""
    root, rows, block = StageId("out"), 4, {"y": [(BLOCK, 16), (THREAD, 4)], "x": [(BLOCK, 1), (THREAD, 64)]}
    zero = tiling(StageId("total", 0), y=(THREAD, rows), x=(THREAD, 64))
    points = {"y": (SERIAL, rows), "x": [(THREAD, threads), (SERIAL, 64 // threads)]}
    added = tiling(StageId("total", 1), **points, **{"k.k": (REDUCTION, 256)})
    member = FusedProducer((zero, added), ComputeAt(Level.BLOCK, root, 2), ("y", "x"))
    return Kernel((Root(tiling(root, **block)),), (member,), ())


def test_an_update_of_a_producer_may_have_a_tile_of_its_own() -> None:
    total, out = Func("total"), Func("out")
    sums(out, total, 256)
    bound = bound_of(out)
    for threads in (64, 2):
        kernel = updated(threads)
        sketch, params = describe_kernel(bound, kernel)
        assert sketch.order(StageId("total", 1)).tile == ((1, 4), (threads, 64 // threads))
        mine, code = rounds(bound, kernel)
        assert mine["total.1"] == code
        assert build_kernel(Featurizer(bound, H200).model(sketch), np.array(params, np.int64)) == kernel


def test_updates_of_searched_kernels_have_the_tile_of_the_first_stage() -> None:
    total, out = Func("total"), Func("out")
    sums(out, total, 256)
    bound = bound_of(out)
    sketch, params = describe_kernel(bound, updated(64))
    usual = replace(sketch, orders=())
    model = Featurizer(bound, H200).model(usual)
    again, _ = describe_kernel(bound, build_kernel(model, np.array(params, np.int64)))
    assert again.order(StageId("total", 1)) == NestOrder(StageId("total", 1))


def test_random_schedules_have_updates_with_tiles_of_their_own() -> None:
    total, out = Func("total"), Func("out")
    sums(out, total, 256)
    bound = bound_of(out)
    found = 0
    for seed in range(40):
        for kernel in sample_schedule(bound, H200, np.random.default_rng(seed)).kernels:
            if kernel.mainloop_at is None:
                sketch, _ = describe_kernel(bound, kernel)
                found += any(o.tile for o in sketch.orders)
    assert found
