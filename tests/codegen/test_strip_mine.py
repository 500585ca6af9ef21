"""Strip mining: which rows are cut into strips, and that results do not change."""

from __future__ import annotations

import re

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, cast, clamp, float32, float64, int32, select, uint8
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.c import print_c
from autosched.lang.dtypes import DType
from autosched.lower.program import Program, lower
from autosched.schedule.cpu_policy import STRIP_LANES, SUMS_BYTES
from autosched.schedule.legality.validate import violations
from autosched.search.beam.random_states import RandomStates
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import SearchSettings
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree
from tests.schedule.building import kernel, root, schedule

H200, CPU = get_target("h200"), get_target("cpu")
HEIGHT = 32
y, x = Var("y"), Var("x")


def window(width: int, dtype: DType = float32, step: int = 1, rows: int = 3) -> BoundPipeline:
    """Weighted sums over some rows of 5 points, of an image whose edges are repeated."""
    image, weights, out = Input("image", dtype, 2), Input("weights", dtype, 2), Func("out")
    t, at = RDom("t", i=rows, j=5), image.clamped()
    out[y, x] = cast(dtype, 0)
    out[y, x] += weights[t.i, t.j] * at[y + t.i - 1, step * x + t.j - 2]
    pipeline = Pipeline(out.over(y=(0, HEIGHT), x=(0, width)), name="window")
    return bind(pipeline, {"image": (HEIGHT, step * width), "weights": (rows, 5)})


def in_rows(bound: BoundPipeline, threads: int, points: int = 1) -> Program:
    """Return a program whose threads go along the rows, each with some points below each other."""
    size = bound.funcs["out"].extents[1]
    tiles = f"by={HEIGHT // points} bx={-(-size // threads)} tx={threads}"
    serial = f" sy={points}" if points > 1 else ""
    rows = bound.shapes["weights"][0]
    roots = [root("out", tiles + serial), root("out.1", tiles + f" rt.i={rows} rt.j=5" + serial)]
    found = schedule(bound, kernel(bound, roots, inlined=["image_clamped"]))
    assert violations(bound, found, H200) == []
    return lower(bound, found)


def lengths(program: Program) -> list[int]:
    """Return the lanes of the loops that add up, in order."""
    text = print_c(program).text
    return [int(n) for n in re.findall(r"for \(int x_t\w* = 0; x_t\w* < (\d+); [^\n]*\n[^}]*weights_v[^}]*\}", text)]


@pytest.mark.parametrize(
    ("threads", "strips"),
    [(31, [31]), (128, [128]), (144, [144]), (160, [128, 32]), (256, [128]), (272, [128, 144]), (400, [128, 144])],
)
def test_wide_rows_are_strip_mined(threads: int, strips: list[int]) -> None:
    bound = window(4 * threads)
    program = in_rows(bound, threads)
    assert sorted(set(lengths(program))) == sorted(set(strips))
    assert_backends_agree(bound, program)


@pytest.mark.parametrize("points", [2, 4, 8])
@pytest.mark.parametrize("dtype", [float32, float64, int32])
def test_strips_are_narrower_for_more_sums(dtype: DType, points: int) -> None:
    bound = window(1024, dtype)
    program = in_rows(bound, 256, points)
    assert set(lengths(program)) == {next((n for n in STRIP_LANES if n * points * dtype.bytes_ <= SUMS_BYTES), 256)}
    assert_backends_agree(bound, program)


@pytest.mark.parametrize("width", [830, 900, 1057])
def test_blocks_at_both_ends_of_rows_have_loops_of_their_own(width: int) -> None:
    """The number of lanes is no compile-time constant, so the sums of partial blocks stay in memory."""
    bound = window(width)
    program = in_rows(bound, 256)
    assert set(lengths(program)) == {STRIP_LANES[0]}
    assert print_c(program).text.count("2 strips of 128 threads") == 1
    assert_backends_agree(bound, program)


def test_lanes_with_a_large_step_are_not_strip_mined() -> None:
    """They form no vectors, so there are no registers that could hold their sums."""
    bound = window(1024, step=9)
    program = in_rows(bound, 256)
    assert "strips" not in print_c(program).text
    assert_backends_agree(bound, program)


@pytest.mark.parametrize(("rows", "nested"), [(3, True), (1, False)])
def test_sums_over_two_loops_are_not_jammed(rows: int, nested: bool) -> None:
    """Otherwise gcc merges two terms, and loads and stores the sums in every iteration of the outer loop."""
    bound = window(512, rows=rows)
    text = print_c(in_rows(bound, 64)).text
    assert ("ONE_BY_ONE;" in text) == nested
    assert_backends_agree(bound, in_rows(bound, 64))


def test_rows_without_sums_are_not_strip_mined() -> None:
    image, out = Input("image", float32, 2), Func("out")
    out[y, x] = image[y, x] * 2
    bound = bind(Pipeline(out.over(y=(0, 8), x=(0, 512)), name="p"), {"image": (8, 512)})
    assert "strips" not in print_c(lower(bound, schedule_roots(bound, CPU))).text


def test_lanes_are_numbered_in_the_whole_row() -> None:
    """In values, conditions, indices that data choose and divisions of the lane's number."""
    image, table, out = Input("image", uint8, 2), Input("table", float32, 1), Func("out")
    t = RDom("t", t=7)
    chosen = table[clamp(cast(int32, image[y, x]) + t.t, 0, 99)]
    out[y, x] = cast(float32, x)
    out[y, x] += select((x + t.t) % 3 == 0, chosen, cast(float32, x // 3) * table[t.t + x // 5])
    shapes = {"image": (HEIGHT, 400), "table": (100,)}
    bound = bind(Pipeline(out.over(y=(0, HEIGHT), x=(0, 400)), name="numbers"), shapes)
    tiles = f"by={HEIGHT} bx=2 tx=200"
    found = schedule(bound, kernel(bound, [root("out", tiles), root("out.1", tiles + " rt.t=7")]))
    assert violations(bound, found, H200) == []
    program = lower(bound, found)
    assert "strips" in print_c(program).text
    assert_backends_agree(bound, program)


def test_random_schedules_agree() -> None:
    """Sums of sums, with those inside lying in registers, tiles and arrays."""
    image, part, out = Input("image", float32, 2), Func("part"), Func("out")
    t, n, clamped = RDom("t", i=3, j=3), RDom("n", j=4), image.clamped()
    part[y, x] = 0.0
    part[y, x] += clamped[y + t.i - 1, x + t.j - 1] * cast(float32, t.i + t.j)
    out[y, x] = cast(float32, x)
    out[y, x] += part[y, x + n.j] * clamped[y, x + n.j]
    bound = bind(Pipeline(out.over(y=(0, 12), x=(0, 1600))), {"image": (12, 1600)})
    states = RandomStates(KernelEvaluator(bound, CPU, analytical_model(CPU), SearchSettings()))
    rng, some = np.random.default_rng(0), 0
    for _ in range(32):
        drawn = states.draw_legal(rng)
        assert drawn is not None
        program = lower(bound, drawn[1])
        some += "strips" in print_c(program).text
        assert_backends_agree(bound, program, emulate=False)
    assert some > 3


@pytest.mark.parametrize(("taps", "cut"), [(46, False), (48, True)])
@pytest.mark.parametrize(("dtype", "lanes"), [(float32, 16), (float64, 8)])
def test_rows_with_very_many_loads_are_cut_into_vectors(taps: int, cut: bool, dtype: DType, lanes: int) -> None:
    """gcc would advance a pointer for each load; the store counts as well. Lanes left over form a loop of their own."""
    image, out = Input("image", dtype, 2), Func("out")
    value = image[y, x]
    for k in range(1, taps):
        value = value * 0.5 + image[y + k % 5, x + 3 * k]
    out[y, x] = value
    bound = bind(Pipeline(out.over(y=(0, 6), x=(0, 406))), {"image": (11, 406 + 3 * taps)})
    program = lower(bound, schedule(bound, kernel(bound, [root("out", "by=2 bx=2 sy=3 tx=203")])))
    text = print_c(program).text
    assert (f"{203 // lanes} vectors of {lanes} threads" in text) is cut
    assert f"x_t < {203 % lanes};" in text or not cut
    assert_backends_agree(bound, program)
