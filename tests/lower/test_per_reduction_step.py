"""Producers computed inside a reduction loop: once per term, or at each point of a term."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import interpret
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lower.ir import Alloc, For, LoopRole, walk
from autosched.lower.program import lower
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.runtime.backends.emulator import EmulatedExecutable
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Schedule
from autosched.target import get_target
from tests.fuzz.witnesses import compile_for_gpu
from tests.lower.run_backends import assert_backends_agree, random_inputs
from tests.schedule.building import kernel, member, root, schedule, thread
from tests.schedule.mainloop_cases import stream
from tests.schedule.weighted_sum import DEPTH, TILE, dot_at, one_kernel, weighted, weights

H200 = get_target("h200")
ROLLED, UNROLLED = 30, 3
"""Terms of reductions that stay loops, and of reductions that are unrolled, with 8 points per thread."""
FORTY = "rr.k=30 sy=2 sx=4"


def check(bound: BoundPipeline, found: Schedule) -> None:
    """Check a schedule on all backends and by NVRTC."""
    assert violations(bound, found, H200) == []
    program = lower(bound, found)
    assert_backends_agree(bound, program)
    compile_for_gpu(program, H200.arch)


@pytest.mark.parametrize("terms", [ROLLED, UNROLLED])
@pytest.mark.parametrize(
    ("inner", "depth", "rows"),
    [
        ("rr.k={} sy=2 sx=4", 1, 2),  # outside the points
        ("rr.k={} sy=2 sx=4", 2, 1),  # between them
        ("rr.k={} sy=2 sx=4", 3, 1),  # innermost
        ("rr.k={} sx=4 sy=2", 1, 2),
        ("sy=2 rr.k={} sx=4", 2, 1),
        ("sx=4 rr.k={} sy=2", 2, 2),
        ("sx=4 sy=2 rr.k={}", 3, 1),
    ],
)
def test_a_sum_and_its_consumer(inner: str, depth: int, rows: int, terms: int) -> None:
    bound = weighted(terms)
    found = one_kernel(bound, inner.format(terms), weights(depth, f"sy={rows}"))
    check(bound, found)
    (ir,) = lower(bound, found).kernels
    counts = {s.buffer.name: s.buffer.count for s in walk(ir.body) if isinstance(s, Alloc)}
    assert counts["dot"] == counts["weight"] == rows
    loops = [s for s in walk(ir.body) if isinstance(s, For) and s.name.startswith("r_k")]
    assert {s.role for s in loops} == {LoopRole.SERIAL if terms == ROLLED else LoopRole.UNROLLED}
    assert all(any(isinstance(s, Alloc) for s in walk(p.body)) for p in loops)


def test_a_thread_of_one_point() -> None:
    bound = weighted(rows=23, columns=15)
    check(bound, one_kernel(bound, "rr.k=30", weights(1, "")))


def test_long_sums_of_a_producer_are_loops_inside_the_reduction_loop() -> None:
    bound = weighted(7, 70)
    check(bound, one_kernel(bound, "rr.k=7 sy=2 sx=4", weights(1, "sy=2", parts=70)))


def test_producers_at_different_loops_of_one_host() -> None:
    bound = weighted()
    (sums, _), (_, inner) = weights(1, "sy=2"), weights(2, "")
    check(bound, one_kernel(bound, FORTY, [sums, inner]))


@pytest.mark.parametrize("depth", [1, 3])
def test_an_inlined_func_reads_a_producer(depth: int) -> None:
    bound = weighted()
    sums, _ = weights(depth, "sy=2" if depth == 1 else "")
    check(bound, one_kernel(bound, FORTY, [sums], inlined=["weight"]))


def test_producers_may_precede_unrolled_terms() -> None:
    bound = weighted(UNROLLED)
    check(bound, one_kernel(bound, f"rr.k={UNROLLED} sy=2 sx=4", weights(0, f"sy=2 sk={UNROLLED}")))


@pytest.mark.parametrize(("depth", "rows"), [(1, "sy=2"), (2, "")])
def test_the_host_is_itself_fused_at_thread(depth: int, rows: str) -> None:
    bound = weighted(doubled=True)
    points = "sy=2 sx=2"
    total = member(thread("out", DEPTH), ("y", "x"), total=points, total__1=f"rr.k=30 {points}")
    at = thread("total.1", depth)
    inside = [dot_at(at, rows), member(at, ("y", "k"), weight=rows), total]
    check(bound, schedule(bound, kernel(bound, [root("out", "by=6 bx=4 tx=8 ty=4 sy=2 sx=2")], inside)))


def test_producers_in_a_mainloop() -> None:
    """The producers are computed per term of a step."""
    bound, tile, points = weighted(), "by=6 bx=2", "sy=2 sx=4"
    copy = member(stream("total.1", 3), ("y", "x"), **{"v.staged": "tx=8 ty=4 sy=2 sx=4"})
    at = thread("total.1", 6)
    inside = [copy, dot_at(at, "sy=2"), member(at, ("y", "k"), weight="sy=2")]
    roots = [root("total", f"{TILE} {points}"), root("total.1", f"{tile} rr.k=6 tx=8 ty=4 rr.k=5 {points}")]
    check(bound, schedule(bound, kernel(bound, roots, inside)))


def test_producers_in_a_warp_reduction() -> None:
    """Sums are rounded in another order than the interpreter's."""
    bound = weighted(rows=21, columns=13)
    tile = "by=6 bx=4"
    roots = [root("total", f"{tile} ty=4 sx=4"), root("total.1", f"{tile} tr.k=8 ty=4 rr.k=4 sx=4")]
    inside = [dot_at(thread("total.1", 5), ""), member(thread("total.1", 5), ("y", "k"), weight="")]
    found = schedule(bound, kernel(bound, roots, inside))
    assert violations(bound, found, H200) == []
    program, inputs = lower(bound, found), random_inputs(bound)
    compile_for_gpu(program, H200.arch)
    expected = interpret(bound.pipeline, inputs, {})["total"]
    for backend in (EmulatedExecutable(program), CpuExecutable(program)):
        total = np.zeros_like(expected)
        backend.run(inputs, {"total": total}, {})
        np.testing.assert_allclose(total, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


WRONG = {
    "before a reduction that stays a loop": (
        weights(0, "sy=2 sk=30"), "total.1 reads dot in registers at an index that unrolling does not make constant"
    ),
    "deeper than the host's loops": (weights(4, ""), "dot at THREAD in total.1: depth 8 must be in 4..7"),
    "deeper than the consumer": (
        [weights(2, "")[0], weights(1, "sy=2")[1]],
        "weight reads dot outside its host total.1: registers are private to a thread",
    ),
    "inside one of two consumers": (
        [dot_at(thread("weight", 0), "sy=2"), weights(1, "sy=2")[1]],
        "total.1 reads dot outside its host weight: registers are private to a thread",
    ),
    "points of one term only": (
        weights(1, "sy=2 sk=2"), "dot at THREAD: its loops over k have 2 points, it needs exactly 1"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_misplaced_producers_are_refused(name: str) -> None:
    bound = weighted()
    members, reason = WRONG[name]
    found = violations(bound, one_kernel(bound, FORTY, members), H200)
    assert found and reason in found[0], found
