"""Legality of warp reductions, and their JSON and text."""

from __future__ import annotations

import re

import pytest

from autosched import Func, Input, Pipeline, RDom, Var
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lang.dtypes import float32
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.io.text import schedule_text
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Kernel, Schedule
from autosched.target import get_target
from tests.schedule.building import kernel, root, schedule
from tests.schedule.mainloop_cases import in_steps, product
from tests.schedule.warp_reduction_cases import at_root, in_block, rows_of, twice

H200, CPU = get_target("h200"), get_target("cpu")
y, x = Var("y"), Var("x")
ROWS, CUBE = rows_of(), rows_of((13, 5, 100))
TWICE = bind(twice(), {"a": (13, 100)})


def scan() -> BoundPipeline:
    """A running sum, whose order cannot change."""
    a, f = Input("a", float32, 2), Func("f")
    r = RDom("r", k=(1, a.shape[1]))
    f[y, x] = a[y, x]
    f[y, r.k] = f[y, r.k - 1] * 2 + f[y, r.k]
    return bind(Pipeline([f.over(y=(0, 13), x=(0, 100))]), {"a": (13, 100)})


def steps() -> tuple[BoundPipeline, Schedule]:
    bound = product()
    found = in_steps(bound)
    roots = [root("dot.1", "by=3 bx=3 rr.k=6 tr.k=4 ty=4 tx=8 sy=4 sx=3") if r.tiling.stage.number else r
             for r in found.roots]  # fmt: skip
    return bound, schedule(bound, Kernel(tuple(roots), found.fused, found.inlined))


GOOD = {
    "whole warps": (ROWS, at_root(ROWS, "by=4 ty=4", "by=4 rr.k=4 tr.k=32 ty=4")),
    "neighbours far apart": (ROWS, at_root(ROWS, "by=4 ty=4", "by=4 tr.k=32 ty=4 rr.k=4")),
    "no serial part": (rows_of((13, 8)), at_root(rows_of((13, 8)), "by=13", "by=13 tr.k=8")),
    "a serial part on either side": (ROWS, at_root(ROWS, "by=4 ty=4", "by=4 rr.k=7 tr.k=8 ty=4 rr.k=2")),
    "the outer of two loops": (CUBE, at_root(CUBE, "by=13", "by=13 rr.j=2 tr.j=4 rr.k=100")),
    "points of a thread": (ROWS, at_root(ROWS, "by=2 ty=2 sy=4", "by=2 rr.k=25 tr.k=4 ty=2 sy=4")),
    "in a kernel of its own": (
        ROWS, schedule(ROWS, kernel(ROWS, [root("f", "by=1 ty=13")]),
                       kernel(ROWS, [root("f.1", "by=13 rr.k=4 tr.k=32")])),
    ),
    "in shared memory": (TWICE, in_block(TWICE, "by=4 ty=4", "ty=4", "rr.k=4 tr.k=32 ty=4")),
    "in shared memory with a nest of its own": (
        TWICE, in_block(TWICE, "by=4 ty=4", "ty=4", "rr.k=13 tr.k=8 ty=2 sy=2"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_round_trip_of_legal_warp_reductions(name: str) -> None:
    bound, found = GOOD[name]
    assert violations(bound, found, H200) == []
    assert from_json(to_json(bound, found), bound) == found
    assert re.search(r"thread r\.[jk] \d+  \(threadIdx.x, warp reduction(, step \d+)?\)", schedule_text(bound, found))


BAD: dict[str, tuple[BoundPipeline, Schedule, str]] = {
    "no power of two": (
        ROWS, at_root(ROWS, "by=4 ty=4", "by=4 rr.k=5 tr.k=20 ty=4"),
        "warp reduction of f.1: lane loop r.k has 20 lanes, which must be a power of two in 2..32",
    ),
    "more than a warp": (
        ROWS, at_root(ROWS, "by=4 ty=4", "by=4 rr.k=2 tr.k=64 ty=4"),
        "lane loop r.k has 64 lanes, which must be a power of two",
    ),
    "not threadIdx.x": (
        ROWS, at_root(ROWS, "by=4 ty=4", "by=4 ty=4 rr.k=4 tr.k=32"),
        "lane loop r.k must be the first thread loop (threadIdx.x)",
    ),
    "two loops": (
        CUBE, at_root(CUBE, "by=13", "by=13 rr.j=2 rr.k=50 tr.j=4 tr.k=2"),
        "only one of r.j, r.k may be a lane loop",
    ),
    "too few iterations": (
        ROWS, at_root(ROWS, "by=4 ty=4", "by=4 rr.k=3 tr.k=32 ty=4"), "loops of f.1 over r.k cover 96 of 100 points",
    ),
    "an empty round": (
        ROWS, at_root(ROWS, "by=4 ty=4", "by=4 rr.k=5 tr.k=32 ty=4"),
        "the 160 iterations of the loops over r.k of f.1 must cover its 100 terms without an empty round",
    ),
    "too many points": (
        ROWS, at_root(ROWS, "by=1 sy=17", "by=1 rr.k=4 tr.k=32 sy=17"),
        "a thread has 17 points in registers, the limit is 16; use shorter serial loops",
    ),
    "other points": (
        ROWS, at_root(ROWS, "by=4 ty=2 sy=2", "by=4 rr.k=4 tr.k=32 ty=4"),
        "stages of f in one kernel need the same thread and serial loops",
    ),
    "elements of two bytes": (
        rows_of(dtype="int16"), at_root(rows_of(dtype="int16"), "by=4 ty=4", "by=4 rr.k=4 tr.k=32 ty=4"),
        "shuffles need elements of 4 or 8 bytes, not int16",
    ),
    "not associative": (
        scan(), schedule(scan(), kernel(scan(), [root("f", "by=13 bx=100")]),
                         kernel(scan(), [root("f.1", "by=13 rr.k=4 tr.k=32")])),
        "r.k of f.1 carries a dependence, so it must be a reduction loop inside one thread",
    ),
    "rows of odd length": (
        TWICE, in_block(TWICE, "by=1 ty=13", "ty=13", "rr.k=13 tr.k=8 ty=13"),
        "warp reduction of f.1 over 8 lanes needs blockDim.x to be a multiple of 8; it is 13",
    ),
    "mainloop": (*steps(), "warp reduction of dot.1: the kernel has a mainloop, which excludes it; use one of them"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_illegal_warp_reductions_give_their_reason(name: str) -> None:
    bound, found, message = BAD[name]
    assert any(message in r for r in violations(bound, found, H200)), violations(bound, found, H200)


@pytest.mark.parametrize("name", GOOD)
def test_the_lanes_of_a_processor_follow_the_same_rules(name: str) -> None:
    bound, found = GOOD[name]
    assert violations(bound, found, CPU) == violations(bound, found, H200) == []


def test_a_processor_exchanges_elements_of_any_size_between_at_most_128_lanes() -> None:
    bound, found, _ = BAD["elements of two bytes"]
    assert violations(bound, found, CPU) == []
    for target, lanes, most in ((H200, 64, 32), (CPU, 256, 128)):
        wide = at_root(ROWS, "by=13", f"by=13 rr.k=2 tr.k={lanes}")
        expected = f"{lanes} lanes, which must be a power of two in 2..{most}"
        assert any(expected in r for r in violations(ROWS, wide, target))
