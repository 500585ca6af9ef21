"""Legality of fused producers: compute location, region, registers, materialisation."""

from __future__ import annotations

import re

import pytest

from autosched import Func, Input, Pipeline, RDom, Var, clamp, float32, uint8
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Kernel, Schedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.schedule.building import (
    block,
    chain_pipeline,
    kernel,
    member,
    product_pipeline,
    root,
    schedule,
    thread,
)

H200 = get_target("h200")
y, x = Var("y"), Var("x")
TILE = "by=5 bx=2 tx=32 ty=8"  # of 40 x 64 points


def two_readers() -> BoundPipeline:
    """``base`` is read by ``left`` and ``right``, both outputs."""
    img = Input("img", float32, 2)
    base, left, right = Func("base"), Func("left"), Func("right")
    base[y, x] = img[y, x] * img[y, x]
    left[y, x] = base[y, x] + 1
    right[y, x] = base[y, x] + left[y, x]
    box = {"y": (0, 40), "x": (0, 64)}
    return bind(Pipeline([left.over(**box), right.over(**box)], name="readers"), {"img": (40, 64)})


def gathered() -> BoundPipeline:
    """``table`` is read at an index that depends on data."""
    img = Input("img", uint8, 2)
    table, out = Func("table"), Func("out")
    table[x] = x * 2.0
    out[y, x] = table[clamp(img[y, x], 0, 9)]
    return bind(Pipeline([out.over(y=(0, 40), x=(0, 64))], name="gather"), {"img": (40, 64)})


def scattered() -> BoundPipeline:
    """``bins`` is written at an index that depends on data."""
    img = Input("img", uint8, 2)
    bins, out = Func("bins"), Func("out")
    r = RDom("r", k=(0, 64))
    bins[y, x] = 0
    bins[y, clamp(img[y, r.k], 0, 3)] += 1
    out[y] = bins[y, 0] + bins[y, 3]
    return bind(Pipeline([out.over(y=(0, 40))], name="scatter"), {"img": (40, 64)})


def shifted() -> BoundPipeline:
    """An in-place update that reads other points than it writes."""
    img = Input("img", float32, 2)
    out = Func("out")
    out[y, x] = img[y, x]
    out[y, 0] = out[y, 63] + 1
    return bind(Pipeline([out.over(y=(0, 40), x=(0, 64))], name="shift"), {"img": (40, 64)})


READERS, GATHER, SCATTER, SHIFT = two_readers(), gathered(), scattered(), shifted()
CHAIN = bind(chain_pipeline(3), {"img": (40, 64)})
LONG = bind(chain_pipeline(6), {"img": (40, 64)})
WIDE = bind(chain_pipeline(2, radius=40), {"img": (40, 64)})
PRODUCT = bind(product_pipeline(), {"a": (40, 30), "b": (30, 64)})


def in_registers(tile: str, depth: int, f2: str) -> Schedule:
    """``f1`` in shared memory, ``f2`` in the registers of ``out``'s threads."""
    members = [member(block("out", 2), "yx", f1="tx=32 ty=8 sy=3 sx=2"), member(thread("out", depth), "yx", f2=f2)]
    return schedule(CHAIN, kernel(CHAIN, [root("out", tile)], members, ["img_clamped"]))


CASES: dict[str, tuple[BoundPipeline, Schedule, tuple[str, ...]]] = {
    "an inlined output": (
        READERS, schedule(READERS, kernel(READERS, [root("right", TILE)], (), ["base", "left"])),
        ("output left is inlined; compute it at root",),
    ),
    "an output inside a kernel": (
        READERS,
        schedule(READERS, kernel(READERS, [root("right", TILE)], [member(block("right", 2), "yx", left="tx=32 ty=8")],
                                 ["base"])),
        ("output left is fused but not materialised; materialise it or compute it at root",),
    ),
    "a fused producer that another kernel reads": (
        READERS,
        schedule(
            READERS,
            kernel(READERS, [root("left", TILE)], [member(block("left", 2), "yx", base="tx=32 ty=8")]),
            kernel(READERS, [root("right", TILE)]),
        ),
        (r"kernel 0: base is fused, but other kernels read it \(right\); materialise it or compute it at root",),
    ),
    "a fused producer without readers": (
        CHAIN,
        schedule(
            CHAIN,
            kernel(CHAIN, [root("f2", "by=6 bx=3 tx=32 ty=8")], (), ["f1", "img_clamped"]),
            Kernel((root("out", TILE),), (member(block("out", 2), "yx", f1="tx=32 ty=8"),)),
        ),
        ("f1 is inlined in one kernel and computed in another; inline it in all or in none",
         "kernel 1 reads img_clamped, .*",
         "kernel 1: no stage of it reads f1; remove f1 from it",
         r"kernel 1: f1 is fused, but other kernels read it \(f2\); materialise it or compute it at root"),
    ),
    "half the stages of a fused producer": (
        PRODUCT,
        schedule(PRODUCT, kernel(PRODUCT, [root("out", TILE)], [member(thread("out", 4), "yx", dot="sy=1 sx=1")])),
        (r"dot\.1 is not computed; .*", "kernel 0: fused producer dot must list all 2 stages of its Func, in order"),
    ),
    "an update inlined": (
        PRODUCT, schedule(PRODUCT, kernel(PRODUCT, [root("out", TILE)], (), ["dot"])),
        ("kernel 0: dot has updates and cannot be inlined; compute it at root or fuse it",),
    ),
    "registers read by another nest": (
        CHAIN, schedule(CHAIN, kernel(
            CHAIN, [root("out", TILE)],
            [member(thread("out", 4), "yx", f1="sy=1 sx=1"), member(block("out", 2), "yx", f2="tx=32 ty=8 sx=2")],
            ["img_clamped"])),
        ("kernel 0: f2 reads f1 outside its host out: registers are private to a thread; compute f1 at BLOCK",),
    ),
    "computed inside itself": (
        CHAIN, schedule(CHAIN, kernel(
            CHAIN, [root("out", TILE)],
            [member(thread("f2", 0), "yx", f1="sy=1 sx=1"), member(thread("f1", 0), "yx", f2="sy=1 sx=1")],
            ["img_clamped"])),
        ("kernel 0: f1 is computed inside itself; choose a host outside of it",),
    ),
    "at BLOCK in a fused producer": (
        CHAIN, schedule(CHAIN, kernel(
            CHAIN, [root("out", TILE)],
            [member(block("f2", 0), "yx", f1="tx=32 ty=8 sx=2"), member(block("out", 2), "yx", f2="tx=32 ty=8 sx=2")],
            ["img_clamped"])),
        ("kernel 0: f1 at BLOCK needs a root stage as host, .*; f2 has 0 block loops, and the depth is 0",),
    ),
    "registers read at data": (
        GATHER, schedule(GATHER, kernel(GATHER, [root("out", TILE)], [member(thread("out", 4), "x", table="sx=10")])),
        (
            "kernel 0: out reads table in registers at an index that unrolling does not make constant; compute "
            "table at BLOCK",
        ),
    ),
    "registers read in a loop that is not unrolled": (
        CHAIN, in_registers("by=3 bx=2 tx=32 sy=17", 3, "sy=18 sx=2"),
        ("kernel 0: out reads f2 in registers at an index that unrolling does not make constant; compute f2 at BLOCK",),
    ),
    "too many registers": (
        WIDE, schedule(WIDE, kernel(WIDE, [root("out", TILE)], [member(thread("out", 4), "yx", f1="sy=41 sx=41")],
                                    ["img_clamped"])),
        ("kernel 0: f1 at THREAD takes 1681 registers per thread, the limit is 64; compute it at BLOCK",),
    ),
    "nested unrolled producers": (
        LONG, schedule(LONG, kernel(LONG, [root("out", "by=10 bx=2 tx=32 sy=4")], [
            member(thread("out", 4), "yx", f5="sy=2 sx=2"),
            *(member(thread(f"f{k + 1}", 2), "yx", **{f"f{k}": "sy=2 sx=2"}) for k in (4, 3, 2, 1)),
        ], ["img_clamped"])),
        (
            "kernel 0: the unrolled kernel has 19112 loads, the limit is 2048: "
            "16384 are in 4096 copies of f1; use shorter serial loops or fuse fewer producers",
        ),
    ),
    "scatter into registers": (
        SCATTER, schedule(SCATTER, kernel(SCATTER, [root("out", "by=5 ty=8")], [
            member(thread("out", 2), "yx", bins="sy=1 sx=4", bins__1="sy=1 rr.k=64")])),
        ("kernel 0: bins at THREAD must write at its own point or in unrolled loops, as registers have no run-time "
         "index; use BLOCK",),
    ),
    "stages that access points of other threads": (
        SHIFT, schedule(SHIFT, kernel(SHIFT, [root("out", "by=5 ty=8 sx=64"), root("out.1", "by=5 ty=8")])),
        ("kernel 0: stages of out access points of other threads; give each stage its own kernel",),
    ),
}  # fmt: skip


def test_starting_points_are_legal() -> None:
    assert violations(CHAIN, in_registers(TILE, 4, "sy=2 sx=2"), H200) == []
    assert violations(CHAIN, in_registers("by=3 bx=2 tx=32 sy=16", 3, "sy=17 sx=2"), H200) == []
    for bound in (READERS, GATHER, SCATTER, SHIFT, PRODUCT):
        assert violations(bound, schedule_roots(bound, H200), H200) == []


@pytest.mark.parametrize("name", CASES)
def test_illegal_fused_producer_gives_its_reasons(name: str) -> None:
    bound, wrong, expected = CASES[name]
    found = violations(bound, wrong, H200)
    assert len(found) == len(expected), found
    for reason, pattern in zip(found, expected, strict=True):
        assert re.fullmatch(pattern, reason), found
