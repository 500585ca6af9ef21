"""Warp reductions on all backends."""

from __future__ import annotations

import re

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, interpret
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.c import print_c
from autosched.codegen.cuda import print_cuda
from autosched.lang.dtypes import float32, int32
from autosched.lang.functions import select
from autosched.lower.ir import WarpReduce, walk
from autosched.lower.program import lower
from autosched.schedule.kernel.warp_reduction import warp_lane_count
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.target import get_target
from tests.schedule.building import block, kernel, member, root, schedule, thread
from tests.schedule.test_validate_warp_reductions import GOOD
from tests.schedule.warp_reduction_cases import TYPED, at_root, in_block, inputs_of, rows_of, twice

H200, CPU = get_target("h200"), get_target("cpu")


def check(bound: BoundPipeline, found: Schedule, *, tolerance: float = 0.0) -> str:
    """Check all backends against the interpreter, and that NVRTC compiles the code; return the CUDA code."""
    inputs = inputs_of(bound)
    expected = interpret(bound.pipeline, inputs)
    scheduled = ScheduledPipeline(bound, found, H200)
    for backend in ("cpu", "emulator"):
        got = scheduled.compile(backend)(inputs)
        for name, values in zip(expected, got if isinstance(got, tuple) else (got,), strict=True):
            np.testing.assert_allclose(values, expected[name], rtol=tolerance, err_msg=f"{backend}: {name}")
    scheduled.compile("cuda")
    return scheduled.source("cuda")


@pytest.mark.parametrize(("op", "name"), TYPED)
def test_all_operators(op: str, name: str) -> None:
    bound = rows_of((5, 70), op, name)
    check(bound, at_root(bound, "by=3 ty=2", "by=3 rr.k=5 tr.k=16 ty=2"))


@pytest.mark.parametrize("width", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("terms", [2, 31, 64, 100])
def test_all_widths(width: int, terms: int) -> None:
    bound = rows_of((13, terms))
    serial = f"rr.k={-(-terms // width)} "
    for update in (f"by=4 {serial} tr.k={width} ty=4", f"by=4 tr.k={width} ty=4 {serial}"):
        check(bound, at_root(bound, "by=4 ty=4", update))


@pytest.mark.parametrize("name", GOOD)
def test_legal_schedules_agree_with_the_interpreter(name: str) -> None:
    check(*GOOD[name])


def test_masks_name_all_lanes_of_full_warps() -> None:
    """The mask has all lanes of a warp where warps are full, otherwise those of the reduction."""
    bound = rows_of()
    whole = check(bound, at_root(bound, "by=4 ty=4", "by=4 rr.k=13 tr.k=8 ty=4"))
    assert "as_distance, 0xffffffffu)" in whole
    narrow = check(bound, at_root(bound, "by=5 ty=3", "by=5 rr.k=13 tr.k=8 ty=3"))
    assert "as_distance, LANES(8u))" in narrow
    warps = check(bound, at_root(bound, "by=5 ty=3", "by=5 rr.k=4 tr.k=32 ty=3"))
    assert "as_distance, 0xffffffffu)" in warps


def test_rows_of_threads_may_exceed_the_lanes() -> None:
    """Another nest has more threads, so rows of the block are longer than the lane loop."""
    bound = bind(twice(int32), {"a": (64, 100)})
    text = check(bound, in_block(bound, "by=2 ty=32", "ty=32", "rr.k=13 tr.k=8 ty=16 sy=2"))
    assert "LANES(8u)" in text and "r_k_t < 8" in text


def test_totals_stay_in_registers() -> None:
    """Lane 0 computes the start value and stores the result; no memory access lies between."""
    bound = rows_of()
    program = lower(bound, GOOD["whole warps"][1])
    (text,) = (print_cuda(k).body for k in program.kernels)
    assert text.count("GLOBAL_OUT") == 1 and "BARRIER" not in text and "LOAD(0, f," not in text
    shuffles = [s for s in walk(program.kernels[0].body) if isinstance(s, WarpReduce)]
    assert {(s.op, s.width) for s in shuffles} == {("add", 32)}


def test_tuples_and_several_updates() -> None:
    y, a = Var("y"), Input("a", float32, 2)
    f = Func("f")
    r, q = RDom("r", k=a.shape[1]), RDom("q", k=(0, 7))
    f[y] = (0.0, 1.0)
    f[y] = (f[y][0] + a[y, r.k], f[y][1] + a[y, r.k] * a[y, r.k])
    f[y] = (f[y][0] * 2, f[y][1] * f[y][0])
    f[y] = (f[y][0] + a[y, q.k], f[y][1] + 1)
    bound = bind(Pipeline([f.over(y=(0, a.shape[0]))]), {"a": (9, 41)})
    pure = "by=3 ty=3"
    found = [
        root("f", pure),
        root("f.1", "by=3 rr.k=6 tr.k=8 ty=3"),
        root("f.2", pure),
        root("f.3", "by=3 tq.k=8 ty=3"),
    ]
    check(bound, schedule(bound, kernel(bound, found)), tolerance=1e-6)


def test_fused_producers_of_terms() -> None:
    """A producer per term in the thread, and one in shared memory; the last lanes have fewer terms."""
    y, x, a = Var("y"), Var("x"), Input("a", float32, 2)
    near, f = Func("near"), Func("f")
    r = RDom("r", k=(0, a.shape[1] - 1))
    near[y, x] = a[y, x] + a[y, x + 1]
    f[y] = 0.0
    f[y] += select(near[y, r.k] > 1, near[y, r.k], 2.0)
    bound = bind(Pipeline([f.over(y=(0, a.shape[0]))]), {"a": (6, 42)})
    roots = [root("f", "by=3 ty=2"), root("f.1", "by=3 rr.k=6 tr.k=8 ty=2")]
    inside = member(thread("f.1", 4), ("y", "x"), near="sy=1 sx=1")
    check(bound, schedule(bound, kernel(bound, roots, [inside])))
    staged = member(block("f", 1), ("y", "x"), near="tx=8 ty=2 sx=6")
    check(bound, schedule(bound, kernel(bound, roots, [staged])))


def test_an_update_in_a_kernel_of_its_own() -> None:
    """The total is combined with the value that an earlier kernel stored."""
    bound = rows_of((3, 1000), "xor", "uint32")
    separate = schedule(
        bound, kernel(bound, [root("f", "by=3")]), kernel(bound, [root("f.1", "by=3 rr.k=32 tr.k=32")])
    )  # fmt: skip
    check(bound, separate)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_backends_round_sums_of_random_schedules_identically(name: str) -> None:
    """The C backend and the emulator add floats in the same order."""
    bound = rows_of((7, 3, 61), "add", name)
    inputs = {"a": np.random.default_rng(4).standard_normal((7, 3, 61)).astype(name)}
    expected = interpret(bound.pipeline, inputs)["f"]
    shared = 0
    for seed in range(8):
        found = sample_schedule(bound, H200, np.random.default_rng(seed), lanes="all")
        shared += any(warp_lane_count(bound, t) > 1 for k in found.kernels for t in k.tilings())
        scheduled = ScheduledPipeline(bound, found, H200)
        in_c, emulated = (scheduled.compile(b)(inputs) for b in ("cpu", "emulator"))
        np.testing.assert_array_equal(in_c, emulated)
        np.testing.assert_allclose(in_c, expected, rtol=1e-4)
    assert shared >= 4


@pytest.mark.parametrize("name", ["uint8", "int16", "float16", "bfloat16", "int32", "float64"])
@pytest.mark.parametrize("op", ["add", "max"])
def test_random_lanes_on_a_processor(op: str, name: str) -> None:
    """Rows of 61 and 96 terms: with a partial last iteration, which is peeled, and without one."""
    for terms in (61, 96):
        bound = rows_of((7, 3, terms), op, name)
        inputs = inputs_of(bound)
        if name == "bfloat16":  # sums have at most 8 bits: exact in any order
            inputs["a"][:, 1:] = 0
        expected = interpret(bound.pipeline, inputs)["f"]
        drawn = (sample_schedule(bound, CPU, np.random.default_rng(seed), lanes="all") for seed in range(20))
        reduced = [s for s in drawn if any(warp_lane_count(bound, t) > 1 for k in s.kernels for t in k.tilings())]
        for found in reduced[:2]:
            np.testing.assert_array_equal(ScheduledPipeline(bound, found, CPU).compile("cpu")(inputs), expected)
        assert len(reduced) >= 2


def test_the_last_iteration_of_partial_rows_is_peeled() -> None:
    bound = rows_of((13, 100))
    text = print_c(lower(bound, at_root(bound, "by=4 ty=4", "by=4 rr.k=4 tr.k=32 ty=4"))).text
    assert "for (int r_k = 0; r_k < 3; r_k++)" in text
    assert re.search(r"r_k_t < as_min_i32\(32, 4\)", text)
    whole = rows_of((13, 96))
    text = print_c(lower(whole, at_root(whole, "by=4 ty=4", "by=4 rr.k=3 tr.k=32 ty=4"))).text
    assert text.count("for (int r_k = 0; r_k < 3; r_k++)") == text.count("int r_k = 0")


def test_wide_lanes_on_a_processor() -> None:
    bound = rows_of((5, 1000), "max", "uint8")
    found = at_root(bound, "by=5", "by=5 rr.k=8 tr.k=128")
    inputs = inputs_of(bound)
    expected = interpret(bound.pipeline, inputs)["f"]
    np.testing.assert_array_equal(ScheduledPipeline(bound, found, CPU).compile("cpu")(inputs), expected)
