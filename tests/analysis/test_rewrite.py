"""Rewrites as data: one memo for all kinds, owned by the pipeline that they are applied to."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import get_args

import pytest

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import (
    ComponentFission,
    ComputationFolding,
    Deinterleaving,
    ExpressionFission,
    FuncClone,
    HorizontalFusion,
    IntegerNarrowing,
    InvariantHoisting,
    LaneLoop,
    ReductionUnrolling,
    Retiming,
    RFactor,
    ScanBlocking,
    WindowDoubling,
)
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.analysis.rewrites.deinterleaving import deinterleave_reads
from autosched.analysis.rewrites.func_cloning import clone_funcs
from autosched.analysis.rewrites.horizontal_fusion import fuse_outputs
from autosched.analysis.rewrites.integer_narrowing import narrow_integers
from autosched.analysis.rewrites.invariant_hoisting import hoist_invariants
from autosched.analysis.rewrites.lane_loops import add_lane_loops
from autosched.analysis.rewrites.mainloop_step import restrict_to_step, with_one_step
from autosched.analysis.rewrites.reduction_unrolling import unroll_reductions
from autosched.analysis.rewrites.rewrite import (
    CacheRead,
    MainloopStep,
    Rewrite,
    ScanStep,
    SlidingWindowStep,
    apply,
    build,
)
from autosched.analysis.rewrites.rfactor import apply_rfactors
from autosched.analysis.rewrites.scan_blocking import block_scans
from autosched.analysis.rewrites.window_doubling import double_windows
from autosched.lang.dtypes import float32, int32
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import cast, clamp, exp
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom

y, x = Var("y"), Var("x")
ROWS, COLUMNS = 12, 64


def bound_rows() -> BoundPipeline:
    """Return sums of rows and of windows, scans, a reduction with a stride, and pointwise outputs."""
    image, r, scan = Input("image", float32, 2), RDom("r", x=COLUMNS), RDom("s", y=(1, ROWS))
    total, running, twice, half = Func("total"), Func("running"), Func("twice"), Func("half")
    total[y] = 0.0
    total[y] += image[y, r.x]
    running[y, x] = image[y, x]
    running[scan.y, x] = running[scan.y - 1, clamp(x + 1, 0, COLUMNS - 1)] + image[scan.y, x]
    twice[y, x], half[y, x] = image[y, x] * 2, image[y, x] / 2
    near, window = Func("near"), RDom("w", x=8)
    near[y, x] = 0.0
    near[y, x] += image[y, x + window.x]
    prefix, strided, weighted, along = Func("prefix"), Func("strided"), Func("weighted"), RDom("a", x=(1, COLUMNS))
    prefix[y, x] = image[y, x]
    prefix[y, along.x] += prefix[y, along.x - 1]
    strided[y, x] = 0.0
    strided[y, x] += image[y, 2 * x + window.x]
    weighted[y, x] = image[y, x] * exp((cast(float32, x) / COLUMNS - 0.5) * 3 + 1)
    parity, shifted, pair = Func("parity"), Func("shifted"), Func("pair")
    pair[y, x] = (image[y, x] + 1, image[y, x] - 1)
    flux = Func("flux")
    flux[y, x] = image[y, x] * 2 - image[y, x + 7] * 2
    parity[y, x] = cast(int32, clamp(image[y, x], 0.0, 100.0)) & 1
    shifted[y, x] = parity[y, x] << 20
    box = {"y": (0, ROWS), "x": (0, COLUMNS)}
    windows = near.over(y=(0, ROWS), x=(0, COLUMNS - 7))
    stencil = Func("stencil")
    stencil[y, x] = image[y, x] + image[y + 1, x]
    outputs = [
        stencil.over(y=(0, ROWS - 1), x=(0, COLUMNS)),
        flux.over(y=(0, ROWS), x=(0, COLUMNS - 7)),
        windows,
        total.over(y=(0, ROWS)),
        strided.over(y=(0, ROWS), x=(0, 28)),
    ]
    outputs += [f.over(**box) for f in (running, twice, half, prefix, weighted, shifted, pair)]
    return bind(Pipeline(outputs), {"image": (ROWS, COLUMNS)})


REWRITES: dict[str, Rewrite] = {
    "window": WindowDoubling("near", 1, "w.x"),
    "scan": ScanBlocking("prefix", 1, 8),
    "deinterleaving": Deinterleaving("strided", "image", 2),
    "hoisting": InvariantHoisting("weighted", "x"),
    "unrolling": ReductionUnrolling("near", 1, "w.x"),
    "narrowing": IntegerNarrowing(("parity",)),
    "rfactor": RFactor("total", 1, (("r.x", 4),)),
    "computation folding": ComputationFolding("flux"),
    "expression fission": ExpressionFission("weighted", 2),
    "retiming": Retiming("stencil", "y"),
    "component fission": ComponentFission("pair", ((0,), (1,))),
    "horizontal fusion": HorizontalFusion(("twice", "half")),
    "clone": FuncClone("parity", ("shifted",)),
    "cache read": CacheRead(frozenset({"image"})),
    "lane loop": LaneLoop("total", 1, "r.x", 32),
    "mainloop step": MainloopStep("total", 1, (("r.x", 8),), 2),
    "sliding window step": SlidingWindowStep("twice", "y", 4, ()),
    "scan step": ScanStep(),
}


def test_every_kind_is_listed() -> None:
    assert {type(rewrite) for rewrite in REWRITES.values()} == set(get_args(Rewrite))


@pytest.mark.parametrize("name", REWRITES)
def test_equal_rewrites_give_the_same_object(name: str) -> None:
    bound = bound_rows()
    rewritten = apply(bound, REWRITES[name])
    assert rewritten is not bound
    assert apply(bound, REWRITES[name]) is rewritten
    assert build(REWRITES[name], bound) is not rewritten


@pytest.mark.parametrize("name", REWRITES)
def test_copies_of_a_pipeline_have_memos_of_their_own(name: str) -> None:
    bound = bound_rows()
    rewritten = apply(bound, REWRITES[name])
    copy = replace(bound)
    assert apply(copy, REWRITES[name]) is not rewritten
    assert apply(rewritten, CacheRead(frozenset({"image"}))) is not apply(bound, CacheRead(frozenset({"image"})))


def test_functions_of_the_package_apply_rewrites() -> None:
    bound = bound_rows()
    assert apply_rfactors(bound, [REWRITES["rfactor"]]) is apply(bound, REWRITES["rfactor"])  # type: ignore[list-item]
    assert double_windows(bound, [REWRITES["window"]]) is apply(bound, REWRITES["window"])  # type: ignore[list-item]
    assert block_scans(bound, [ScanBlocking("prefix", 1, 8)]) is apply(bound, REWRITES["scan"])
    assert deinterleave_reads(bound, [Deinterleaving("strided", "image", 2)]) is apply(
        bound, REWRITES["deinterleaving"]
    )
    assert hoist_invariants(bound, [InvariantHoisting("weighted", "x")]) is apply(bound, REWRITES["hoisting"])
    assert unroll_reductions(bound, [ReductionUnrolling("near", 1, "w.x")]) is apply(bound, REWRITES["unrolling"])
    assert narrow_integers(bound, [IntegerNarrowing(("parity",))]) is apply(bound, REWRITES["narrowing"])
    assert fuse_outputs(bound, [HorizontalFusion(("twice", "half"))]) is apply(bound, REWRITES["horizontal fusion"])
    assert clone_funcs(bound, [FuncClone("parity", ("shifted",))]) is apply(bound, REWRITES["clone"])
    assert insert_cache_reads(bound, ["image", "nothing"]) is apply(bound, REWRITES["cache read"])
    assert add_lane_loops(bound, [LaneLoop("total", 1, "r.x", 32)]) is apply(bound, REWRITES["lane loop"])
    assert restrict_to_step(bound, "total", 1, {"r.x": 8}, 2) is apply(bound, REWRITES["mainloop step"])
    assert with_one_step(bound) is apply(bound, REWRITES["scan step"])


def test_steps_of_pipelines_with_other_cache_reads_are_distinct() -> None:
    bound = bound_rows()
    step = REWRITES["sliding window step"]
    apply(bound, step)
    cached = apply(bound, CacheRead(frozenset({"image"})))
    assert "image.staged" in apply(cached, step).funcs


def test_rewritten_pipelines_are_freed_with_the_original() -> None:
    bound = bound_rows()
    references = [weakref.ref(apply(bound, rewrite)) for rewrite in REWRITES.values()]
    gc.collect()
    assert all(reference() is not None for reference in references)
    del bound
    gc.collect()
    assert not any(reference() is not None for reference in references)


def test_other_values_are_refused() -> None:
    with pytest.raises(TypeError, match="'rfactor' is not a rewrite of a pipeline"):
        apply(bound_rows(), "rfactor")  # type: ignore[arg-type]
