"""Every rule of legality is broken by one schedule made from a legal one, and only its own reason is given."""

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
    """The blur in one kernel with something changed."""
    members = [across or member(block("out", 2), "yx", across=ACROSS)]
    return schedule(BLUR, kernel(BLUR, [root("out", out), *roots], members, CLAMPED))


def across_at(at: ComputeAt, text: str = ACROSS, order: str = "yx") -> FusedProducer:
    """The horizontal blur as a Member."""
    return member(at, order, across=text)


def two_kernels() -> tuple[Kernel, Kernel]:
    """The blur in a kernel for each direction."""
    return kernel(BLUR, [root("across", "by=7 bx=3 tx=32 ty=8")], (), CLAMPED), kernel(BLUR, [root("out", OUT)])


def with_member(m: FusedProducer) -> Schedule:
    """The blur in one kernel with another Member, everything else kept."""
    k = SHARED.kernels[0]
    return replace(SHARED, kernels=(replace(k, fused=(m,)),))


def test_what_the_cases_start_from_is_legal() -> None:
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
        r"dot\.1 is nowhere computed; add it as a root, a member or inlined",
    ),
    "a stage twice": (
        BLUR, schedule(BLUR, two_kernels()[0], *two_kernels()),
        "across is computed in kernel 0 and again in kernel 1",
    ),
    "inlined and computed": (
        BLUR,
        schedule(BLUR, two_kernels()[0], kernel(BLUR, [root("out", OUT)], (), ["across", *CLAMPED])),
        "across is inlined in one kernel and computed in another",
    ),
    "producer after consumer": (
        BLUR, schedule(BLUR, *reversed(two_kernels())),
        "kernel 0 reads across, which no earlier kernel has finished",
    ),
    "stages out of order": (
        PRODUCT,
        schedule(PRODUCT, kernel(PRODUCT, [root("dot.1", DOT_1)]), kernel(PRODUCT, [root("dot", DOT_0)]), COPY),
        "the stages of dot are computed out of order",
    ),
    "stages of a kernel out of order": (
        PRODUCT, schedule(PRODUCT, replace(DOT, roots=DOT.roots[::-1]), COPY),
        r"kernel 0: dot is listed after dot\.1, but must run before it; list root stages in the order they run",
    ),
    "stages in the order of no kernel": (
        PRODUCT, schedule(PRODUCT, replace(DOT, roots=DOT.roots[1:]), replace(DOT, roots=DOT.roots[:1]), COPY),
        "the stages of dot are computed out of order",
    ),
    "unknown Func": (
        BLUR, schedule(BLUR, *two_kernels(), Kernel((root("blurred", OUT),))),
        "kernel 2: it computes blurred, which the pipeline does not have",
    ),
    "unknown stage": (
        BLUR, schedule(BLUR, *two_kernels(), Kernel((root("out.1", OUT),))),
        r"kernel 2: it computes out\.1, which the pipeline does not have",
    ),
    "negative stage": (
        BLUR, schedule(BLUR, *two_kernels(), Kernel((root("out.-1", OUT),))),
        r"kernel 2: it computes out\.-1, which the pipeline does not have",
    ),
    "unknown inlined Func": (
        BLUR,
        schedule(BLUR, two_kernels()[0], replace(two_kernels()[1], inlined=(Inlined("ghost", 1),))),
        "ghost is no Func of this pipeline",
    ),
    "unknown dimension": (BLUR, blur_of(out=f"{OUT} sz=1"), "out has no loop z; it has y, x"),
    "no root": (BLUR, schedule(BLUR, *two_kernels(), Kernel(())), "kernel 2: it has no root stage"),
    "extent 0": (BLUR, blur_of(out=f"{OUT} sx=0"), "loop x of out has extent 0"),
    "extent too large": (BLUR, blur_of(out=f"{OUT} sx={1 << 41}"), "loop x of out has extent 2199023255552"),
    "pure loop as a reduction": (BLUR, blur_of(out=f"{OUT} ry=1"), "y of out is no reduction"),
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
        BLUR, blur_of(out="by=7 bx=3 tx=16 tx=2 ty=8"), "out has two thread loops over one dimension",
    ),
    "two block loops of a dimension": (
        BLUR, blur_of(across_at(block("out", 3)), "by=7 bx=3 bx=1 tx=32 ty=8"),
        "out has two block loops over one dimension",
    ),
    "block loops not first": (
        BLUR, blur_of(out="by=7 tx=32 bx=3 ty=8"), "block loops of out must come first",
    ),
    "block loop of a member": (
        BLUR, blur_of(across_at(block("out", 2), f"by=1 {ACROSS}")),
        "across is computed inside a block and cannot have block loops",
    ),
    "reduction loops too short": (
        PRODUCT,
        schedule(PRODUCT, kernel(PRODUCT, [root("dot", DOT_0), root("dot.1", f"{DOT_0} rr.k=6 rr.k=4")]), COPY),
        r"reduction loops r\.k of dot\.1 must have its 30 iterations, and no other loops",
    ),
    "reduction loop missing": (
        PRODUCT, schedule(PRODUCT, kernel(PRODUCT, [root("dot", DOT_0), root("dot.1", DOT_0)]), COPY),
        r"dot\.1 lacks its loop r\.k",
    ),
    "cover too small": (BLUR, blur_of(out="by=6 bx=3 tx=32 ty=8"), "loops of out over y cover 48 of 53 points"),
    "empty blocks": (
        BLUR, blur_of(out="by=8 bx=3 tx=32 ty=8"), "out has 8 blocks over y, more than its 53 points need",
    ),
    "host elsewhere": (
        BLUR, blur_of(across_at(block("img_clamped", 2))),
        "across is computed in img_clamped, which is not computed in this kernel",
    ),
    "BLOCK inside a thread loop": (
        BLUR, blur_of(across_at(block("out", 3))), "across at BLOCK must be in a root, inside its 2 block loops",
    ),
    "THREAD outside the thread loops": (
        BLUR, blur_of(across_at(thread("out", 3), "sy=4 sx=1"), TALL),
        "across at THREAD in out must be at a depth from 4 to 5",
    ),
    "THREAD deeper than the loops": (
        BLUR, blur_of(across_at(thread("out", 6), "sy=3 sx=1"), TALL),
        "across at THREAD in out must be at a depth from 4 to 5",
    ),
    "THREAD member of the wrong size": (
        BLUR, blur_of(across_at(thread("out", 4), "sy=5 sx=1"), TALL),
        "across in registers needs exactly 4 points of y, its loops have 5",
    ),
    "THREAD member with thread loops": (
        BLUR, blur_of(across_at(thread("out", 4), "ty=4 sx=1"), TALL),
        "across is computed inside one thread and cannot have thread loops",
    ),
    "BLOCK member too small": (
        BLUR, blur_of(across_at(block("out", 2), "tx=32 ty=8")), "across needs 10 points of y, its loops cover 8",
    ),
    "storage order": (
        BLUR, blur_of(across_at(block("out", 2), order="yy")), "storage order of across must list y, x",
    ),
    "stored member": (
        BLUR, with_member(replace(across_at(block("out", 2)), materialised=True)),
        "kernel 0 stores across, which nothing else reads; do not store it",
    ),
    "MAINLOOP": (
        BLUR, with_member(across_at(ComputeAt(Level.MAINLOOP, stage("out"), 2))),
        "between its 2 block loops and there must be reduction loops, and only such, or one serial loop over points",
    ),
    "WARP": (
        BLUR, with_member(across_at(ComputeAt(Level.WARP, stage("out"), 2))),
        "across is computed at WARP, which is not supported yet",
    ),
    "a member at ROOT": (
        BLUR, with_member(across_at(ComputeAt(Level.ROOT, stage("out"), 0))),
        "across is computed at ROOT, which is not supported yet",
    ),
    "unread inlined Func": (
        BLUR,
        schedule(BLUR, two_kernels()[0], replace(two_kernels()[1], inlined=(Inlined("img_clamped", 1),))),
        "nothing in it reads img_clamped",
    ),
    "roots whose threads own other points": (
        PRODUCT,
        schedule(
            PRODUCT,
            kernel(PRODUCT, [root("dot", "by=5 bx=1 sx=2 tx=32 ty=8"),
                             root("dot.1", "by=5 bx=1 tx=32 ty=8 sx=2 rr.k=30")]),
            COPY,
        ),
        "stages of dot in one kernel need the same thread and serial loops",
    ),
    "two loose roots": (
        BLUR, schedule(BLUR, kernel(BLUR, [root("across", OUT), root("out", OUT)], (), CLAMPED)),
        "out and across are different Funcs, which share a kernel only around MAINLOOP Members",
    ),
    "roots on different grids": (
        PRODUCT,
        schedule(
            PRODUCT, kernel(PRODUCT, [root("dot", DOT_0), root("dot.1", "by=6 bx=2 tx=32 ty=8 rr.k=30")]), COPY
        ),
        r"dot\.1 has other block loops than dot",
    ),
    "roots with different threads": (
        PRODUCT,
        schedule(
            PRODUCT, kernel(PRODUCT, [root("dot", DOT_0), root("dot.1", "by=5 bx=2 ty=8 tx=32 rr.k=30")]), COPY
        ),
        "stages of dot in one kernel need the same thread and serial loops",
    ),
    "a root that is not stored": (
        PRODUCT, schedule(PRODUCT, DOT, replace(COPY, roots=(replace(COPY.roots[0], materialised=False),))),
        "a root is not stored just where the points its threads hold are read by the one other root",
    ),
}  # fmt: skip
"""What is wrong: the pipeline, the schedule, and the reason (a regular expression)."""


@pytest.mark.parametrize("name", CASES)
def test_one_broken_rule_gives_its_reason(name: str) -> None:
    bound, wrong, reason = CASES[name]
    (found,) = violations(bound, wrong, H200)
    assert re.search(f"{reason}$", found)


def test_a_root_stage_that_is_listed_twice() -> None:
    twice = schedule(PRODUCT, replace(DOT, roots=(*DOT.roots, DOT.roots[-1])), COPY)
    assert "kernel 0: dot.1 is listed twice as a root stage" in violations(PRODUCT, twice, H200)


def test_the_error_holds_all_reasons_and_names_pipeline_and_target() -> None:
    wrong = blur_of(out="by=6 bx=2 tx=32 ty=8")
    with pytest.raises(ScheduleError, match=r"illegal schedule for 'blur' on H200: .*over y cover.*; .*over x cover"):
        validate(BLUR, wrong, H200)
