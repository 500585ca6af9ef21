"""Hybrid tiles on all backends: figure 5 of Jangda and Guha, all split dimensions, types, boundaries and resampling."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, cast, select
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.registry import get_app
from autosched.codegen.cuda import print_cuda
from autosched.lang.boundary import KINDS
from autosched.lang.dtypes import BY_NAME, float32, int16
from autosched.lower.ir import ShuffleRead, walk, walk_values
from autosched.lower.ir import values_of as values
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.io.structural_hash import structural_hash
from autosched.schedule.io.text import canonical_text
from autosched.schedule.legality.validate import violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.sampling.random_hybrid_tiles import random_hybrid_tiles
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.sampling.random_warp_tiles import random_warp_tiles
from autosched.schedule.types import Kernel, Schedule
from autosched.target import get_target
from tests.lower.hybrid_cases import (
    app_schedule,
    hybrid,
    reading,
    rows,
    rows_kernel,
    stencils,
    stencils_kernel,
    x,
    y,
    z,
)
from tests.lower.run_backends import assert_backends_agree, traced
from tests.lower.test_linear_threads import assert_computes
from tests.schedule.building import block, kernel, member, root, schedule
from tests.stage_limits import short_app

H200 = get_target("h200")
fuzz = pytest.mark.fuzz


def check(bound: BoundPipeline, one: Kernel) -> str:
    """Check that a kernel is legal, that all witnesses agree, and that NVRTC compiles it; return its text."""
    made = schedule(bound, one)
    assert violations(bound, made, H200) == []
    assert from_json(to_json(bound, made), bound) == made
    program = lower(bound, made)
    assert_backends_agree(bound, program)
    printed = print_cuda(program.kernels[0])
    if have_nvrtc():
        assert compile_cubin(printed.source, "sm_90", name=printed.name).kernels[printed.name].spill_bytes == 0
    return printed.body


def steps_in_registers(text: str) -> list[str]:
    """Return the text of each step of the root whose left neighbours are in registers."""
    root_text = text[text.index("// blury: this") :]
    unrolled = root_text[root_text.index("SHUFFLE_LANE") :]
    return [part for part in re.split(r"STORE\(\d+, blury, [^\n]*\n", unrolled) if "SHUFFLE_LANE" in part]


def test_blur_of_figure_5() -> None:
    """Warp 32, tile 16, half in registers: stores, shuffles and reads of each step."""
    bound = rows()
    one = rows_kernel(bound, 8)
    plan = plan_kernel(bound, one)
    assert plan.allocations["blurx"].count == 258 and plan.allocations["blurx"].extents == (1, 258)
    assert plan.hybrid_tiles["blurx"].elements == 8
    text = check(bound, one)
    assert "SHARED(float, blurx, 258, 0);" in text and "REGISTER(float, blurx_r, 8);" in text
    steps = steps_in_registers(text)
    assert len(steps) == 8
    assert [s.count("SHUFFLE_LANE") for s in steps] == [2] * 8
    assert [len(re.findall(r"LOAD\(\d+, blurx,", s)) for s in steps] == [2] + [0] * 7
    own = [re.findall(r"LOAD\(\d+, blurx_r, (\d+)\)", s) for s in steps]
    assert own == [[str(k)] for k in range(8)]  # the right-most tap alone
    given = [re.findall(r"GIVEN\(\d+, blurx_r, (\d+)\)", s) for s in steps]
    assert given == [["0", "0"], *([str(k), str(k - 1)] * 2 for k in range(1, 8))]


def test_blur_computes_each_point_once() -> None:
    bound = rows()
    program = lower(bound, schedule(bound, rows_kernel(bound, 8)))
    trace = traced(bound, program)
    text = print_cuda(program.kernels[0]).body
    tiles = 3 * 2
    loads = [int(n) for n in re.findall(r"LOAD\((\d+), img", text)]
    assert sum(trace.active_lanes[loads]) == 3 * 514 * tiles
    assert trace.active_lanes[[int(n) for n in re.findall(r"LOAD\((\d+), blurx,", text)]].sum() == tiles * (3 * 256 + 3)
    assert trace.shuffles == 8 * 2 * 32 * tiles


def test_forms_of_a_schedule_keep_the_tile() -> None:
    bound = rows()
    made, other = (schedule(bound, rows_kernel(bound, n)) for n in (8, 9))
    assert from_json(to_json(bound, made), bound) == made
    assert '"registers": {"dim": "x", "iterations": 8}' in to_json(bound, made)
    assert canonical_text(made).endswith("@ block blury.0 2 [y x] with 8 iterations of x in registers")
    assert structural_hash(made, 3) == structural_hash(other, 3)
    assert structural_hash(made, 5) != structural_hash(other, 5)


@pytest.mark.parametrize("width", [1200, 1024, 100, 33, 1])
@pytest.mark.parametrize("iterations", [1, 8, 16, 17])
def test_partial_tiles(width: int, iterations: int) -> None:
    bound = rows(width)
    check(bound, rows_kernel(bound, iterations))


TILES = [((32, 1), (2, 1)), ((16, 2), (2, 3)), ((8, 4), (4, 1)), ((4, 4), (3, 2)), ((10, 3), (2, 1))]
SHARES = [(1, 1), (2, 1), (2, 2), (9, 9), (0, 1), (1, 0)]
CASES = [(tile, dim, share) for tile, dim, share in product(TILES, "xy", SHARES)]


@pytest.mark.parametrize("warps", [(1, 1), (2, 1), (1, 3)])
@pytest.mark.parametrize(
    ("tile", "dim", "share"), [pytest.param(*c, marks=[fuzz] * (k % 11 > 0)) for k, c in enumerate(CASES)]
)
def test_chains_of_stencils(tile: Any, dim: str, share: tuple[int, int], warps: tuple[int, int]) -> None:
    bound = stencils()
    text = check(bound, stencils_kernel(bound, *tile, dim, share, warps))
    assert "_r, " in text and " BARRIER()" not in text


def test_threads_have_a_linear_order() -> None:
    bound = stencils()
    for dim in "xy":
        check(bound, replace(stencils_kernel(bound, (8, 3), (2, 2), dim, (1, 2)), linear_threads=True))


@pytest.mark.parametrize(
    "name", ["int8", "uint16", "int64", "float64", "float16", "bfloat16", "int16", "uint64", "uint8"]
)
def test_types(name: str) -> None:
    bound = stencils(2, 20, 90, BY_NAME[name], radius=3)
    check(bound, stencils_kernel(bound, (32, 1), (2, 1), "x", (1,)))


def test_conditions_and_values_of_several_types() -> None:
    img, f, out = Input("img", float32, 2), Func("f"), Func("out")
    f[y, x] = (img[y, x] * 2, cast(int16, img[y, x]), img[y, x] > 0)
    value, number, condition = (f[y, x + 2 - k][k] for k in range(3))
    out[y, x] = value + number + select(condition, f[y, x + 2][0], 1.0)
    bound = bind(Pipeline(out.over(y=(0, 7), x=(0, 98)), name="values"), {"img": (7, 100)})
    producer = hybrid(member(block("out", 2), "yx", f="sx=3 tx=32"), "x", 1)
    text = check(bound, kernel(bound, [root("out", "by=7 bx=2 sx=2 tx=32")], [producer]))
    assert "SHUFFLE_LANE(short," in text and "SHUFFLE_LANE(unsigned char," in text


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_reductions_of_producers(iterations: int) -> None:
    img, f, out, r = Input("img", float32, 2), Func("f"), Func("out"), RDom("r", k=5)
    f[y, x] = 1.0
    f[y, x] += img[y, x + r.k]
    out[y, x] = f[y, x] + f[y, x + 1] * f[y, x + 2]
    bound = bind(Pipeline(out.over(y=(0, 7), x=(0, 98)), name="sums"), {"img": (7, 104)})
    stages = member(block("out", 2), "yx", f="sx=3 tx=32", f__1="sx=3 tx=32 rr.k=5")
    check(bound, kernel(bound, [root("out", "by=7 bx=2 sx=2 tx=32")], [hybrid(stages, "x", iterations)]))


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_reductions_of_readers(iterations: int) -> None:
    img, f, out, r = Input("img", float32, 2), Func("f"), Func("out"), RDom("r", k=5)
    f[y, x] = img[y, x] * 3
    out[y, x] = 1.0
    out[y, x] += f[y, x + r.k]
    bound = bind(Pipeline(out.over(y=(0, 7), x=(0, 98)), name="sums"), {"img": (7, 102)})
    roots = [root("out", "by=7 bx=2 sx=2 tx=32"), root("out.1", "by=7 bx=2 sx=2 tx=32 rr.k=5")]
    check(bound, kernel(bound, roots, [hybrid(member(block("out", 2), "yx", f="sx=3 tx=32"), "x", iterations)]))


@pytest.mark.parametrize("iterations", [1, 2, 4])
@pytest.mark.parametrize("distance", [31, 40, *(pytest.param(d, marks=fuzz) for d in (32, 33, 64, 70, 100))])
def test_distances_beyond_the_warp(distance: int, iterations: int) -> None:
    img, f, out = Input("img", float32, 2), Func("f"), Func("out")
    f[y, x] = img[y, x] * 3
    out[y, x] = f[y, x] + f[y, x + distance] * f[y, x + distance - 7]
    bound = bind(Pipeline(out.over(y=(0, 3), x=(0, 100)), name="far"), {"img": (3, 100 + distance)})
    steps = -(-(64 + distance) // 32)
    producer = hybrid(member(block("out", 2), "yx", f=f"sx={steps} tx=32"), "x", min(iterations, steps))
    check(bound, kernel(bound, [root("out", "by=3 bx=2 sx=2 tx=32")], [producer]))


LANES_3D = [(1, 1, 32), (2, 2, 8), (1, 2, 16), (2, 4, 4), (4, 1, 8)]
STEPS_3D = [(1, 1, 2), (2, 1, 1), (1, 2, 1)]
CASES_3D = [*product(LANES_3D, STEPS_3D, "zyx", (True, False))]


@pytest.mark.parametrize(
    ("lanes", "steps", "dim", "whole"), [pytest.param(*c, marks=[fuzz] * (k % 13 > 0)) for k, c in enumerate(CASES_3D)]
)
def test_three_dimensions(lanes: tuple[int, ...], steps: tuple[int, ...], dim: str, whole: bool) -> None:
    img, f1, f2, out = Input("img", float32, 3), Func("f1"), Func("f2"), Func("out")
    f1[z, y, x] = img[z, y, x] * 3 + img[z, y, x + 1]
    f2[z, y, x] = f1[z, y, x] + f1[z + 1, y + 2, x + 3] - f1[z + 1, y + 1, x]
    out[z, y, x] = f2[z, y, x] * f2[z + 1, y + 1, x + 1]
    bound = bind(Pipeline(out.over(z=(0, 5), y=(0, 7), x=(0, 20)), name="boxes"), {"img": (7, 10, 25)})
    threads = " ".join(f"t{d}={n}" for d, n in zip("xyz", lanes[::-1], strict=True))
    producers = []
    for name, halo in (("f1", (2, 3, 4)), ("f2", (1, 1, 1))):
        need = {d: -(-(s * t + h) // t) for d, s, t, h in zip("zyx", steps, lanes, halo, strict=True)}
        serial = " ".join(f"s{d}={n}" for d, n in need.items())
        producer = member(block("out", 3), "zyx", **{name: f"{serial} {threads}"})
        producers.append(hybrid(producer, dim, need[dim] if whole else max(1, need[dim] - 1)))
    sizes = zip("zyx", (5, 7, 20), steps, lanes, strict=True)
    blocks = " ".join(f"b{d}={-(-n // (s * t))}" for d, n, s, t in sizes)
    serial = " ".join(f"s{d}={s}" for d, s in zip("zyx", steps, strict=True))
    check(bound, kernel(bound, [root("out", f"{blocks} {serial} {threads}")], producers))


BOUNDARIES = [*product(KINDS, [(41, 150), (3, 33), (8, 64)], "xy")]


@pytest.mark.parametrize(
    ("kind", "size", "dim"), [pytest.param(*c, marks=[fuzz] * (k % 4 > 0)) for k, c in enumerate(BOUNDARIES)]
)
def test_boundary_conditions(kind: str, size: tuple[int, int], dim: str) -> None:
    height, width = size
    img, f, out = Input("img", float32, 2), Func("f"), Func("out")
    f[y, x] = img[y, x] * 2
    edges = {"y": (0, height), "x": (0, width)}
    outside = f.constant(0.5, **edges) if kind == "constant" else getattr(f, kind)(**edges)
    out[y, x] = outside[y - 1, x] + outside[y, x + 1] - outside[y + 1, x - 1]
    bound = bind(Pipeline(out.over(**edges), name="edges"), {"img": size})
    inlined = [name for name in bound.funcs if name not in ("f", "out")]
    producer = hybrid(member(block("out", 2), "yx", f="sy=4 sx=3 tx=16 ty=2"), dim, 1)
    blocks = f"by={-(-height // 4)} bx={-(-width // 32)}"
    check(bound, kernel(bound, [root("out", f"{blocks} sy=2 sx=2 tx=16 ty=2")], [producer], inlined))


@pytest.mark.parametrize("iterations", [1, 2, 3])
@pytest.mark.parametrize("tiling", ["sx=3 tx=32 sx=2", "sx=5 tx=32"])
def test_downsampled_producers(tiling: str, iterations: int) -> None:
    """Lanes with two neighbouring points read registers alone; with one, they choose among the lanes of two steps."""
    img, f, out = Input("img", float32, 2), Func("f"), Func("out")
    f[y, x] = img[y, x + 1] * 3
    out[y, x] = f[y, 2 * x] + f[y, 2 * x + 1] * f[y, 2 * x + 2]
    bound = bind(Pipeline(out.over(y=(0, 3), x=(0, 100)), name="down"), {"img": (3, 204)})
    producer = hybrid(member(block("out", 2), "yx", f=tiling), "x", iterations)
    check(bound, kernel(bound, [root("out", "by=3 bx=2 sx=2 tx=32")], [producer]))


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_upsampled_producers(iterations: int) -> None:
    img, f, out = Input("img", float32, 2), Func("f"), Func("out")
    f[y, x] = img[y, x + 1] * 3
    out[y, x] = f[y, x // 2] * select(x % 2 == 0, 1.0, 2.0) + f[y, (x + 1) // 2] + f[y, x // 2 + 1]
    bound = bind(Pipeline(out.over(y=(0, 3), x=(0, 200)), name="up"), {"img": (3, 204)})
    producer = hybrid(member(block("out", 2), "yx", f="sx=3 tx=32"), "x", iterations)
    check(bound, kernel(bound, [root("out", "by=3 bx=2 sx=2 tx=32 sx=2")], [producer]))


@pytest.mark.parametrize("index", ["mirrored", "third", "transposed", "permuted"])
def test_reads_among_a_few_registers(index: str) -> None:
    """Reads at other distances select among the registers of both steps, after a shuffle of each."""
    assert "SHUFFLE_LANE" in check(*reading(index))


@pytest.mark.parametrize("dim", ["x", "y"])
@pytest.mark.parametrize("iterations", [1, 2])
def test_groups_that_resample(dim: str, iterations: int) -> None:
    """Fine, coarse and fine again: scaled by two points of a lane, distances are constant."""
    img, fine, coarse, up, out = Input("img", float32, 2), *map(Func, ("fine", "coarse", "up", "out"))
    fine[y, x] = img[y, x + 1] * 3
    coarse[y, x] = fine[2 * y, 2 * x] + fine[2 * y + 1, 2 * x + 1] * fine[2 * y + 2, 2 * x + 2]
    up[y, x] = coarse[y // 2, x // 2] - coarse[y // 2 + 1, (x + 1) // 2]
    out[y, x] = up[y, x] + fine[y, x + 1] * up[y + 1, x + 1]
    bound = bind(Pipeline(out.over(y=(0, 20), x=(0, 60)), name="levels"), {"img": (30, 80)})
    producers = [
        hybrid(member(block("out", 2), "yx", **{name: f"sy=2 sx=2 tx=8 ty=4 {points}"}), dim, iterations)
        for name, points in (("fine", "sy=2 sx=2"), ("coarse", ""), ("up", "sy=2 sx=2"))
    ]
    check(bound, kernel(bound, [root("out", "by=3 bx=4 tx=8 ty=4 sy=2 sx=2")], producers))


APP_GROUPS: dict[str, tuple[dict[str, tuple[str, dict[str, str]]], list[str]]] = {
    "interpolate": (
        {
            "output": (
                "bc=1 by=7 bx=3 sc=3 sx=2 tx=8 ty=4 sy=2 sx=2",
                {"up_0_x": "sc=4 sy=2 sx=2 tx=8 ty=4 sx=2", "filled_0": "sc=4 sx=2 tx=8 ty=4 sy=2 sx=2"},
            )
        },
        ["input_clamped", "down_1_clamped", "up_0"],
    ),
    "pyramid_blend": (
        {
            "output": (
                "bc=3 by=14 bx=2 sx=2 tx=16 ty=2 sy=2 sx=2",
                dict.fromkeys(
                    ("result_0_up_x", "image1_0_up_x", "image2_0_up_x"), "sc=1 sy=2 sx=2 tx=16 ty=2 sx=2"
                ),
            )
        },
        [
            "image1_clamped", "image2_clamped", "mask_clamped", "result_0_up", "image1_0_up", "image2_0_up",
            "image1_0_detail", "image2_0_detail", "blended_0",
        ],
    ),
    "camera_pipe": (
        {
            "output": (
                "bc=3 by=16 bx=2 sy=2 sx=2 tx=16 ty=2",
                {"blur_y": "sc=1 sy=2 sx=3 tx=16 ty=2", "curved": "sc=1 sy=3 sx=3 tx=16 ty=2"},
            ),
            "red": (
                "by=9 bx=3 sx=2 tx=8 ty=4 sy=2 sx=2",
                dict.fromkeys(("r_at_gr", "r_at_b", "r_at_gb"), "sy=2 sx=3 tx=8 ty=4"),
            ),
        },
        ["blur_x"],
    ),
}  # fmt: skip
"""Kernels with hybrid tiles of apps that resample; other Funcs are computed at root."""


@pytest.mark.parametrize("iterations", [1, pytest.param(9, marks=fuzz)])
@pytest.mark.parametrize(
    ("name", "dim"),
    [
        pytest.param(n, d, marks=[pytest.mark.fuzz] * ((k + k // 2) % 2))  # each app along one dimension
        for k, (n, d) in enumerate(product(APP_GROUPS, "xy"))
    ],
)
def test_apps_that_resample(name: str, dim: str, iterations: int) -> None:
    app, bound = get_app(name), short_app(name)
    made = app_schedule(bound, *APP_GROUPS[name], dim, iterations)
    assert violations(bound, made, H200) == []
    assert sum(m.registers is not None for k in made.kernels for m in k.fused) == sum(
        len(fused) for _, fused in APP_GROUPS[name][0].values()
    )
    params = {p.name: p.default for p in bound.pipeline.params}
    assert_computes(bound, made, app.make_inputs(app.small_sizes), params, seed=iterations)


def with_hybrid_tiles(bound: BoundPipeline, drawn: Schedule, seed: int) -> tuple[Schedule, int]:
    """Return a schedule with random warp tiles and hybrid tiles, and the number of these."""
    rng = np.random.default_rng(seed)
    kernels = []
    for k in drawn.kernels:
        tiles = random_warp_tiles(bound, k, H200, rng) or k
        kernels.append(random_hybrid_tiles(bound, tiles, H200, rng) or tiles)
    made = replace(drawn, kernels=tuple(kernels))
    return made, sum(m.registers is not None for k in kernels for m in k.fused)


SHORT = ("blur",)
LONG = ("unsharp", "harris", "interpolate", "pyramid_blend", "camera_pipe", "bilateral_grid", "canny", "stencil_chain")


@pytest.mark.parametrize("name", [*SHORT, *(pytest.param(n, marks=fuzz) for n in LONG)])
def test_random_schedules_of_apps_agree(name: str) -> None:
    app, bound = get_app(name), short_app(name)
    params: dict[str, Any] = {p.name: p.default for p in bound.pipeline.params}
    found = 0
    for seed in range(20):
        drawn = sample_schedule(bound, H200, np.random.default_rng(seed), varied=seed % 2 > 0)
        made, count = with_hybrid_tiles(bound, drawn, seed)
        found += count
        if count and found - count < 6:
            assert violations(bound, made, H200) == []
            assert from_json(to_json(bound, made), bound) == made
            assert_computes(bound, made, app.make_inputs(app.small_sizes), params, seed=seed)
    assert found


def test_shuffles_are_outside_of_conditions() -> None:
    bound = rows(1200)
    (ir,) = lower(bound, schedule(bound, rows_kernel(bound, 8))).kernels
    shuffles = [v for s in walk(ir.body) for a in values(s) for v in walk_values(a) if isinstance(v, ShuffleRead)]
    assert len(shuffles) == 2 * 2 * 8  # of interior and boundary blocks
    assert {v.lanes for v in shuffles} == {0xFFFFFFFF}
