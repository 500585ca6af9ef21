"""Splitting scatter loops: which loops are split, and that both versions have the same results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from autosched import Expr, Func, Input, Pipeline, RDom, Var, cast, clamp, float16, float32, int32, select, uint8
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen import c as printer
from autosched.codegen.c import print_c
from autosched.lang.dtypes import DType
from autosched.lower.program import Program, lower
from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import ComputeAt, FusedProducer, Level, StageId, StageTiling
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree

CPU = get_target("cpu")
WAYS = ("#undef AS_SCATTERS", "#undef AS_SCATTERS\n#define AS_SCATTERS")
y, x, z = Var("y"), Var("x"), Var("z")


def level(value: Expr) -> Expr:
    """Return which of eight levels a value is on."""
    return clamp(cast(int32, value * 0.1 + 3.5), 0, 7)


def bound_bins(dtype: DType = float32, extent: int = 50) -> BoundPipeline:
    """Return how many of three neighbours are on each level, for each column."""
    image, bins, t = Input("image", dtype, 2), Func("bins"), RDom("t", t=3)
    bins[z, y, x] = 0
    bins[level(cast(float32, image[y, x + t.t])), y, x] += t.t + 1
    return bind(Pipeline(bins.over(z=(0, 8), y=(0, 6), x=(0, extent)), name="p"), {"image": (6, extent + 2)})


def both_ways(monkeypatch: pytest.MonkeyPatch, check: Callable[[], None]) -> None:
    """Check both versions of the C text: for processors with scatter instructions and for others."""
    prelude = printer.host_prelude()
    for way in WAYS:
        with monkeypatch.context() as patch:
            patch.setattr(printer, "host_prelude", lambda way=way: f"{prelude}{way}\n")
            check()


@pytest.mark.parametrize("dtype", [float32, float16, uint8], ids=str)
def test_both_versions_agree(monkeypatch: pytest.MonkeyPatch, dtype: DType) -> None:
    bound = bound_bins(dtype)
    program = lower(bound, schedule_roots(bound, CPU))
    assert "#ifdef AS_SCATTERS" in print_c(program).text
    both_ways(monkeypatch, lambda: assert_backends_agree(bound, program, emulate=False))


def test_both_versions_agree_for_random_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stored values depend on earlier stores, on a boolean, and form a tuple."""
    image, grid, out, t = Input("image", float32, 2), Func("grid"), Func("out"), RDom("t", t=4)
    value = image[y, x + t.t]
    grid[z, y, x] = 0.0, cast(uint8, 0)
    at = level(value)
    bright = value * value > 300
    before = grid[at, y, x]
    grid[at, y, x] = select(before[0] > 20, before[0] * 0.5, before[0] + value), before[1] | cast(uint8, bright)
    out[z, y, x] = grid[z, y, x][0] + cast(float32, grid[7 - z, y, x][1])
    pipeline = Pipeline(out.over(z=(0, 8), y=(0, 5), x=(0, 37)))
    bound = bind(pipeline, {"image": (5, 40)})
    split = 0
    for seed in range(12):
        program = lower(bound, sample_schedule(bound, CPU, np.random.default_rng(seed)))
        split += "#ifdef AS_SCATTERS" in print_c(program).text
        both_ways(monkeypatch, lambda program=program: assert_backends_agree(bound, program, emulate=False))
    assert split > 3


def lane_loops(program: Program, kernel: str) -> list[str]:
    """Return the first lane loops of a kernel that a processor without such stores runs, one for each step."""
    body = print_c(program).text.partition(f"void {kernel}(")[2]
    step = body.partition("#else")[2].partition("#endif")[0]
    return [part.partition("}")[0] for part in step.split("for (int x_t")[1:]]


def test_loads_of_the_written_array_are_in_the_second_loop() -> None:
    bound = bound_bins()
    first, second = lane_loops(lower(bound, schedule_roots(bound, CPU)), "p_bins1")
    assert "as_cvt_i32_f32" in first
    assert "bins," not in first and "as_cvt_i32_f32" not in second and second.count("bins,") == 2


def test_an_index_that_is_read_and_written_is_kept_once() -> None:
    bound = bound_bins()
    text = print_c(lower(bound, schedule_roots(bound, CPU))).text
    assert text.count("REGISTER(int,") == text.count("#ifdef AS_SCATTERS") > 0


@pytest.mark.parametrize(
    ("index", "split"),
    [
        (lambda at: clamp(at, 0, 7), False),  # only clamps, which are part of the address
        (lambda at: clamp(at * at - at, 0, 7), True),
    ],
)
def test_loops_without_operands_to_compute_are_not_split(index: Callable[[Expr], Expr], split: bool) -> None:
    at, out = Input("at", int32, 2), Func("out")
    out[z, y, x] = 0
    out[index(at[y, x]), y, x] += 1
    bound = bind(Pipeline(out.over(z=(0, 8), y=(0, 6), x=(0, 50))), {"at": (6, 50)})
    program = lower(bound, schedule_roots(bound, CPU))
    assert ("#ifdef AS_SCATTERS" in print_c(program).text) == split
    assert_backends_agree(bound, program, emulate=False)


def test_few_lanes_are_not_split() -> None:
    bound = bound_bins(extent=4)
    assert "#ifdef AS_SCATTERS" not in print_c(lower(bound, schedule_roots(bound, CPU))).text


def test_stores_to_registers_are_forwarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the scalar loop would load the values again, and the vectorised loop would have no work."""
    image, staged, bins = Input("image", float32, 2), Func("staged"), Func("bins")
    staged[y, x] = image[y, x] * 3
    bins[z, y, x] = 0
    bins[level(staged[y, x]), y, x] += 1
    bound = bind(Pipeline(bins.over(z=(0, 8), y=(0, 6), x=(0, 50)), name="p"), {"image": (6, 50)})
    baseline = schedule_roots(bound, CPU)
    *others, update = baseline.kernels
    inside = FusedProducer(
        (StageTiling(StageId("staged"), ()),), ComputeAt(Level.THREAD, StageId("bins", 1), 4), ("y", "x"), False
    )
    schedule = replace(baseline, kernels=(*others, replace(update, fused=(inside,), inlined=())))
    assert violations(bound, schedule, CPU) == []
    program = lower(bound, schedule)
    step, stores = lane_loops(program, "p_bins1")
    assert "as_cvt_i32_f32" in step and "as_cvt_i32_f32" not in stores
    both_ways(monkeypatch, lambda: assert_backends_agree(bound, program, emulate=False))


def test_invariant_first_loops_are_hoisted(monkeypatch: pytest.MonkeyPatch) -> None:
    image, c, t = Input("image", float32, 2), Var("c"), RDom("t", t=3)
    bins = Func("bins")
    bins[c, z, y, x] = 0.0
    bins[c, level(image[y, x + t.t]), y, x] += select(c == 0, image[y, x + t.t], 1.0)
    bound = bind(Pipeline(bins.over(c=(0, 2), z=(0, 8), y=(0, 6), x=(0, 50)), name="p"), {"image": (6, 52)})
    found = False
    for seed in range(60):
        program = lower(bound, sample_schedule(bound, CPU, np.random.default_rng(seed)))
        before = [
            part.partition("#endif")[0].partition("for (int c_s")[0] for part in print_c(program).text.split("#else")
        ]
        if any("as_cvt_i32_f32" in part and "x_t" in part and "c_s" not in part for part in before):
            found = True
            both_ways(monkeypatch, lambda program=program: assert_backends_agree(bound, program, emulate=False))
            break
    assert found
