"""Legality: one schedule breaks each rule, and only the reason of this rule is given."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import ScheduleError
from autosched.schedule.legality.validate import validate, violations
from autosched.schedule.types import ComputeAt, FusedProducer, Inlined, Kernel, Level, Root, Schedule
from autosched.target import get_target
from tests.schedule.building import (
    block,
    blur,
    blur_with_shared,
    kernel,
    member,
    product_pipeline,
    root,
    schedule,
    stage,
    thread,
)

H200 = get_target("h200")

BLUR = blur()
SHARED = blur_with_shared(BLUR)
OUT = "by=7 bx=3 tx=32 ty=8"
ACROSS = "tx=32 ty=8 sy=2"
TALL = "by=7 bx=3 tx=32 ty=4 sy=2"
CLAMPED = ["img_clamped"]

PRODUCT = bind(product_pipeline(), {"a": (40, 30), "b": (30, 50)})
DOT_0 = "by=5 bx=2 tx=32 ty=8"
DOT_1 = f"{DOT_0} rr.k=30"
DOT = kernel(PRODUCT, [root("dot", DOT_0), root("dot.1", DOT_1)])
COPY = kernel(PRODUCT, [root("out", DOT_0)])


def blur_of(across: FusedProducer | None = None, out: str = OUT, roots: tuple[Root, ...] = ()) -> Schedule:
    """Return the blur in one kernel with one change."""
    members = [across or member(block("out", 2), "yx", across=ACROSS)]
    return schedule(BLUR, kernel(BLUR, [root("out", out), *roots], members, CLAMPED))


def across_at(at: ComputeAt, text: str = ACROSS, order: str = "yx") -> FusedProducer:
    """Return the horizontal blur as a fused producer."""
    return member(at, order, across=text)


def two_kernels() -> tuple[Kernel, Kernel]:
    """Return the blur as one kernel per direction."""
    return kernel(BLUR, [root("across", "by=7 bx=3 tx=32 ty=8")], (), CLAMPED), kernel(BLUR, [root("out", OUT)])


def with_producer(m: FusedProducer) -> Schedule:
    """Return the blur in one kernel with another fused producer."""
    k = SHARED.kernels[0]
    return replace(SHARED, kernels=(replace(k, fused=(m,)),))


def test_starting_points_are_legal() -> None:
    assert violations(BLUR, SHARED, H200) == []
    assert violations(BLUR, schedule(BLUR, *two_kernels()), H200) == []
    assert violations(BLUR, blur_of(across_at(thread("out", 4), "sy=4 sx=1"), TALL), H200) == []
    assert violations(PRODUCT, schedule(PRODUCT, DOT, COPY), H200) == []


CASES: dict[str, tuple[BoundPipeline, Schedule, str]] = {
    "another pipeline": (
        BLUR, replace(SHARED, pipeline_hash="0" * 64),
        r"it was made for another pipeline \(000000000000, this one is [0-9a-f]{12}\); make a new one with .*",
    ),
    "a stage is missing": (
        PRODUCT, schedule(PRODUCT, kernel(PRODUCT, [root("dot", DOT_0)]), COPY),
        r"dot\.1 is not computed; add it as a root, as a fused producer or inlined",
    ),
    "a stage twice": (
        BLUR, schedule(BLUR, two_kernels()[0], *two_kernels()),
        "across is computed in kernel 0 and again in kernel 1; keep one of them",
    ),
    "inlined and computed": (
        BLUR,
        schedule(BLUR, two_kernels()[0], kernel(BLUR, [root("out", OUT)], (), ["across", *CLAMPED])),
        "across is inlined in one kernel and computed in another; inline it in all or in none",
    ),
    "producer after consumer": (
        BLUR, schedule(BLUR, *reversed(two_kernels())),
        "kernel 0 reads across, which no earlier kernel completes; compute it in an earlier kernel",
    ),
    "stages out of order": (
        PRODUCT,
        schedule(PRODUCT, kernel(PRODUCT, [root("dot.1", DOT_1)]), kernel(PRODUCT, [root("dot", DOT_0)]), COPY),
        "the stages of dot are computed out of order; updates follow the stages before them",
    ),
    "stages of a kernel out of order": (
        PRODUCT, schedule(PRODUCT, replace(DOT, roots=DOT.roots[::-1]), COPY),
        r"kernel 0: dot is listed after dot\.1, but must run before it; list root stages in the order they run",
    ),
    "stages in the order of no kernel": (
        PRODUCT, schedule(PRODUCT, replace(DOT, roots=DOT.roots[1:]), replace(DOT, roots=DOT.roots[:1]), COPY),
        "the stages of dot are computed out of order; updates follow the stages before them",
    ),
    "unknown Func": (
        BLUR, schedule(BLUR, *two_kernels(), Kernel((root("blurred", OUT),))),
        "kernel 2: it computes blurred, which is no stage of the pipeline",
    ),
    "unknown stage": (
        BLUR, schedule(BLUR, *two_kernels(), Kernel((root("out.1", OUT),))),
        r"kernel 2: it computes out\.1, which is no stage of the pipeline",
    ),
    "negative stage": (
        BLUR, schedule(BLUR, *two_kernels(), Kernel((root("out.-1", OUT),))),
        r"kernel 2: it computes out\.-1, which is no stage of the pipeline",
    ),
    "unknown inlined Func": (
        BLUR,
        schedule(BLUR, two_kernels()[0], replace(two_kernels()[1], inlined=(Inlined("ghost", 1),))),
        "ghost is no Func of this pipeline",
    ),
    "unknown dimension": (BLUR, blur_of(out=f"{OUT} sz=1"), "out has no loop z; it has y, x"),
    "no root": (
        BLUR, schedule(BLUR, *two_kernels(), Kernel(())), "kernel 2: it has no root stage; a kernel needs at least one",
    ),
    "extent 0": (BLUR, blur_of(out=f"{OUT} sx=0"), r"loop x of out has extent 0; it must be in 1\.\.2199023255551"),
    "extent too large": (
        BLUR, blur_of(out=f"{OUT} sx={1 << 41}"), r"loop x of out has extent 2199023255552; it must be in 1\.\..*",
    ),
    "pure loop as a reduction": (
        BLUR, blur_of(out=f"{OUT} ry=1"),
        "y of out is no reduction variable, so it has no reduction loop; make it serial",
    ),
    "carried loop on blocks": (
        PRODUCT,
        schedule(
            PRODUCT,
            kernel(PRODUCT, [root("dot", DOT_0)]),
            kernel(PRODUCT, [root("dot.1", "by=5 bx=50 br.k=30 ty=8")]),
            COPY,
        ),
        r"r\.k of dot\.1 carries a dependence, so it must be a reduction loop inside one thread",
    ),
    "two thread loops of a dimension": (
        BLUR, blur_of(out="by=7 bx=3 tx=16 tx=2 ty=8"),
        "out has two thread loops over one dimension; merge them into one",
    ),
    "two block loops of a dimension": (
        BLUR, blur_of(across_at(block("out", 3)), "by=7 bx=3 bx=1 tx=32 ty=8"),
        "out has two block loops over one dimension; merge them into one",
    ),
    "block loops not first": (
        BLUR, blur_of(out="by=7 tx=32 bx=3 ty=8"), "block loops of out must come before its other loops",
    ),
    "block loop of a fused producer": (
        BLUR, blur_of(across_at(block("out", 2), f"by=1 {ACROSS}")),
        "across is computed inside a block and cannot have block loops; make them thread or serial",
    ),
    "reduction loops too short": (
        PRODUCT,
        schedule(PRODUCT, kernel(PRODUCT, [root("dot", DOT_0), root("dot.1", f"{DOT_0} rr.k=6 rr.k=4")]), COPY),
        r"loops over r\.k of dot\.1 must be reduction loops of exactly 30 iterations, without block, thread or "
        r"serial loops",
    ),
    "reduction loop missing": (
        PRODUCT, schedule(PRODUCT, kernel(PRODUCT, [root("dot", DOT_0), root("dot.1", DOT_0)]), COPY),
        r"dot\.1 has no loop over r\.k; add a reduction loop of 30 iterations",
    ),
    "cover too small": (BLUR, blur_of(out="by=6 bx=3 tx=32 ty=8"), "loops of out over y cover 48 of 53 points"),
    "empty blocks": (
        BLUR, blur_of(out="by=8 bx=3 tx=32 ty=8"), "out has 8 blocks over y, more than its 53 points need; use fewer",
    ),
    "host elsewhere": (
        BLUR, blur_of(across_at(block("img_clamped", 2))),
        "across: its host img_clamped is not computed in this kernel; choose a stage that is",
    ),
    "BLOCK inside a thread loop": (
        BLUR, blur_of(across_at(block("out", 3))),
        "across at BLOCK needs a root stage as host, .*; out has 2 block loops, and the depth is 3",
    ),
    "THREAD outside the thread loops": (
        BLUR, blur_of(across_at(thread("out", 3), "sy=4 sx=1"), TALL),
        r"across at THREAD in out: depth 3 must be in 4\.\.5",
    ),
    "THREAD deeper than the loops": (
        BLUR, blur_of(across_at(thread("out", 6), "sy=3 sx=1"), TALL),
        r"across at THREAD in out: depth 6 must be in 4\.\.5",
    ),
    "THREAD producer of the wrong size": (
        BLUR, blur_of(across_at(thread("out", 4), "sy=5 sx=1"), TALL),
        "across at THREAD: its loops over y have 5 points, it needs exactly 4",
    ),
    "THREAD producer with thread loops": (
        BLUR, blur_of(across_at(thread("out", 4), "ty=4 sx=1"), TALL),
        "across at THREAD cannot have thread loops; make them serial",
    ),
    "BLOCK producer too small": (
        BLUR, blur_of(across_at(block("out", 2), "tx=32 ty=8")),
        "across: its loops over y cover 8 of the 10 points that its consumers need",
    ),
    "storage order": (
        BLUR, blur_of(across_at(block("out", 2), order="yy")),
        r"storage order of across must list each of its dimensions once \(y, x\)",
    ),
    "materialised producer without readers": (
        BLUR, with_producer(replace(across_at(block("out", 2)), materialised=True)),
        "kernel 0 materialises across, which no other kernel reads; do not materialise it",
    ),
    "MAINLOOP": (
        BLUR, with_producer(across_at(ComputeAt(Level.MAINLOOP, stage("out"), 2))),
        "the loops from its 2 block loops to this depth must all be reduction loops, or be one serial loop",
    ),
    "WARP": (
        BLUR, with_producer(across_at(ComputeAt(Level.WARP, stage("out"), 2))),
        "across is at WARP, but no root has a loop over warps; add warp loops, or compute it at BLOCK",
    ),
    "a fused producer at ROOT": (
        BLUR, with_producer(across_at(ComputeAt(Level.ROOT, stage("out"), 0))),
        "across: there is no lowering for level ROOT; use BLOCK, MAINLOOP, WARP or THREAD",
    ),
    "unread inlined Func": (
        BLUR,
        schedule(BLUR, two_kernels()[0], replace(two_kernels()[1], inlined=(Inlined("img_clamped", 1),))),
        "no stage of it reads img_clamped; remove img_clamped from it",
    ),
    "roots with other points per thread": (
        PRODUCT,
        schedule(
            PRODUCT,
            kernel(PRODUCT, [root("dot", "by=5 bx=1 sx=2 tx=32 ty=8"),
                             root("dot.1", "by=5 bx=1 tx=32 ty=8 sx=2 rr.k=30")]),
            COPY,
        ),
        "stages of dot in one kernel need the same thread and serial loops",
    ),
    "two roots without a mainloop": (
        BLUR, schedule(BLUR, kernel(BLUR, [root("across", OUT), root("out", OUT)], (), CLAMPED)),
        "out and across are stages of different Funcs, which share a kernel only around a mainloop; use two kernels",
    ),
    "roots on different grids": (
        PRODUCT,
        schedule(
            PRODUCT, kernel(PRODUCT, [root("dot", DOT_0), root("dot.1", "by=6 bx=2 tx=32 ty=8 rr.k=30")]), COPY
        ),
        r"dot\.1 has other block loops than dot; root stages of a kernel share one grid",
    ),
    "roots with different threads": (
        PRODUCT,
        schedule(
            PRODUCT, kernel(PRODUCT, [root("dot", DOT_0), root("dot.1", "by=5 bx=2 ty=8 tx=32 rr.k=30")]), COPY
        ),
        "stages of dot in one kernel need the same thread and serial loops",
    ),
    "a root that is not materialised": (
        PRODUCT, schedule(PRODUCT, DOT, replace(COPY, roots=(replace(COPY.roots[0], materialised=False),))),
        "a kernel has one root Func, which is materialised, or two: the first in registers, the second "
        "materialised and reading the first",
    ),
}  # fmt: skip
"""Pipeline, illegal schedule and reason (a regular expression)."""


@pytest.mark.parametrize("name", CASES)
def test_one_broken_rule_gives_its_reason(name: str) -> None:
    bound, wrong, reason = CASES[name]
    (found,) = violations(bound, wrong, H200)
    assert re.search(f"{reason}$", found)


def test_a_root_stage_that_is_listed_twice() -> None:
    twice = schedule(PRODUCT, replace(DOT, roots=(*DOT.roots, DOT.roots[-1])), COPY)
    assert "kernel 0: dot.1 is listed twice as a root stage; keep one of them" in violations(PRODUCT, twice, H200)


def test_the_error_contains_all_reasons_pipeline_and_target() -> None:
    wrong = blur_of(out="by=6 bx=2 tx=32 ty=8")
    with pytest.raises(ScheduleError, match=r"illegal schedule for 'blur' on H200: .*over y cover.*; .*over x cover"):
        validate(BLUR, wrong, H200)
