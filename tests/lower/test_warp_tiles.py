"""Kernels whose warps have tiles of their own: text, code, barriers of warps, and agreement of all witnesses."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, Var, float32, int32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import local_laplacian
from autosched.apps.app import Arrays
from autosched.apps.registry import get_app
from autosched.codegen.cuda import CudaKernel, print_cuda
from autosched.codegen.prelude import called_scalar_functions, scalar_prelude
from autosched.lower.program import lower
from autosched.reference import interpret
from autosched.runtime.backends.emulator import EmulatedExecutable, _spec
from autosched.runtime.emulator import EmulatorError, ErrorKind, compile_emulated
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.io.structural_hash import structural_hash
from autosched.schedule.io.text import canonical_text, schedule_text
from autosched.schedule.kernel.warp_tiles import merge_warp_loops
from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.sampling.random_warp_tiles import random_warp_tiles
from autosched.schedule.types import Kernel, Level, Schedule, TileAlignment
from autosched.target import get_target
from tests.lower.test_linear_threads import assert_computes
from tests.schedule.building import blur, chain_pipeline, kernel, member, product_pipeline, root, schedule, thread, warp
from tests.stage_limits import short_app

H200 = get_target("h200")
z, y, x = Var("z"), Var("y"), Var("x")


def blur_kernel(out: str = "by=7 bx=2 wy=2 wx=2 sy=4 tx=24", across: str = "sy=6 tx=24", depth: int = 4) -> Kernel:
    """Return the blur of 53 x 77 points with its rows in a warp's slice."""
    bound = blur()
    return kernel(bound, [root("out", out)], [member(warp("out", depth), "yx", across=across)], ["img_clamped"])


def elements(bound: BoundPipeline, seed: int = 0) -> dict[str, np.ndarray]:
    """Return small whole numbers for each input, so that sums are exact in any order."""
    rng = np.random.default_rng(seed)
    return {n: rng.integers(0, 60, i.shape).astype(i.dtype.numpy) for n, i in bound.inputs.items()}


def check(bound: BoundPipeline, *kernels: Kernel, seed: int = 0) -> Schedule:
    """Check that kernels are legal and that all witnesses agree; return their schedule."""
    made = schedule(bound, *kernels)
    assert violations(bound, made, H200) == []
    assert_computes(bound, made, elements(bound, seed), {}, seed=seed)
    return made


def printed(bound: BoundPipeline, *kernels: Kernel) -> list[CudaKernel]:
    return [print_cuda(k) for k in lower(bound, schedule(bound, *kernels)).kernels]


def test_forms_of_a_schedule_keep_them() -> None:
    bound = blur()
    made = schedule(bound, blur_kernel())
    other = schedule(bound, blur_kernel("by=4 bx=2 wy=4 wx=2 sy=4 tx=24"))
    assert from_json(to_json(bound, made), bound) == made
    assert '"kind": "warp"' in to_json(bound, made) and '"level": "warp"' in to_json(bound, made)
    assert canonical_text(made).startswith(
        "root out.0(block y 7, block x 2, warp y 2, warp x 2, serial y 4, thread x 24) stored; "
        "member across.0(serial y 6, thread x 24) @ warp out.0 4 [y x]"
    )
    assert structural_hash(made, 1) == structural_hash(other, 1)
    assert structural_hash(made, 3) != structural_hash(other, 3)
    assert schedule_text(bound, made).split("\n")[2:10] == [
        "kernel 0: out[y 53, x 77] from img",
        "  7 x 2 = 14 blocks of 2 x 2 = 4 warps, 576 bytes of shared memory a warp",
        "  inlined, 3 calls: img_clamped[y, x] = img[min(max(y, 0), 52), min(max(x, 0), 76)]",
        "  block y 7  (step 8)",
        "    block x 2  (step 48)",
        "      warp y 2  (step 4)",
        "        warp x 2  (step 24)",
        "          across[y 6, x 24]: in shared memory, 576 bytes",
    ]
    assert made.levels["across"] is Level.WARP


def test_code_has_a_row_of_threads_and_a_slice_for_each_warp() -> None:
    (found,) = printed(blur(), blur_kernel())
    assert (found.grid, found.block, found.shared_bytes) == ((2, 7, 1), (32, 4, 1), 4 * 576)
    for line in (
        "KERNEL(blur_out, 128)(",
        "WARP_SHARED(float, across, 144, 0, 576);",
        "const int y_b = blockIdx.y * 2 + threadIdx.y / 2;  // 14 tiles of warps, 2 a block",
        "const int x_b = blockIdx.x * 2 + threadIdx.y % 2;  // 4 tiles of warps, 2 a block",
        "if (threadIdx.x < 24) {",
        "WARP_BARRIER(0xffffffffu);",
        "// out: this warp's tile",
    ):
        assert line in found.body
    assert " BARRIER()" not in found.body and "return" not in found.body


def test_warps_without_tiles_return() -> None:
    (found,) = printed(blur(), blur_kernel("by=3 bx=1 wy=5 wx=4 sy=4 tx=24"))
    assert "const int x_b = threadIdx.y % 4;  // 4 tiles of warps, 4 a block" in found.body
    assert "if (y_b >= 14) return;  // a warp without a tile" in found.body
    assert (found.grid, found.block) == ((3, 1, 1), (32, 20, 1))


@pytest.mark.parametrize(
    ("out", "across", "depth"),
    [
        ("by=7 bx=2 wy=2 wx=2 sy=4 tx=24", "sy=6 tx=24", 4),  # 24 of 32 lanes
        ("by=3 bx=1 wy=5 wx=4 sy=4 tx=20", "sy=6 tx=20", 4),  # warps without tiles; 20 lanes
        ("bx=2 wx=2 wy=3 sy=20 tx=20", "ty=22 sx=20", 3),  # no block loop over y; other lanes in the producer
        ("by=14 bx=2 wx=2 sy=2 sx=2 tx=10 ty=2", "sx=2 sy=2 tx=10 ty=3", 3),  # lanes of 10 x 2 and 10 x 3
        ("by=53 bx=3 wx=1 tx=32", "tx=32 sy=3", 3),  # one warp a block
        ("by=2 bx=1 wy=8 tx=1 sy=4 sx=77", "tx=13 sy=6 sx=6", 3),
    ],
)
def test_shapes_of_warps(out: str, across: str, depth: int) -> None:
    check(blur(), blur_kernel(out, across, depth))


def test_a_chain_of_producers_reuses_the_slice() -> None:
    bound = bind(chain_pipeline(4), {"img": (33, 50)})
    tiles = [
        member(warp("out", 3), "yx", f1="tx=22 sy=11"), member(warp("out", 3), "yx", f2="sy=5 sx=7 tx=3 ty=2"),
        member(warp("out", 3), "yx", f3="ty=9 sx=17"),
    ]  # fmt: skip
    made = kernel(bound, [root("out", "by=5 bx=2 wx=2 tx=16 sy=7")], tiles, ["img_clamped"])
    check(bound, made, seed=1)
    (found,) = printed(bound, made)
    assert found.body.count("WARP_BARRIER") == 2 * 3
    slots = re.findall(r"WARP_SHARED\(unsigned short, f\d, (\d+), (\d+), (\d+)\);", found.body)
    assert len({offset for _, offset, _ in slots}) < len(slots) == 3


def volume() -> BoundPipeline:
    """Return two stencils over a volume, the first behind a mirrored boundary."""
    img = Input("img", float32, 3)
    edge, near, out = img.mirrored(), Func("near"), Func("out")
    near[z, y, x] = edge[z - 1, y, x] + edge[z, y + 1, x] + 2 * edge[z, y, x - 1]
    out[z, y, x] = near[z + 1, y, x] + near[z, y - 1, x + 1]
    box = {"z": (0, 10), "y": (0, 13), "x": (0, 22)}
    return bind(Pipeline(out.over(**box), name="volume"), {"img": (10, 13, 22)})


@pytest.mark.parametrize(
    ("out", "near", "depth"),
    [
        ("bz=3 by=2 bx=3 wz=2 wy=2 sz=2 tx=8 ty=4", "tx=9 sy=5 sz=3", 5),
        ("bz=2 by=1 bx=1 wx=3 wz=1 wy=4 tx=4 ty=2 tz=4 sx=2 sy=2 sz=2", "tx=3 ty=3 tz=3 sx=3 sy=2 sz=3", 6),
        ("by=3 bx=2 wz=5 sz=2 tx=16 sy=5", "tx=17 sy=6 sz=3", 3),
    ],
)
def test_three_dimensions(out: str, near: str, depth: int) -> None:
    bound = volume()
    inlined = [n for n in bound.funcs if n not in ("near", "out")]
    made = kernel(bound, [root("out", out)], [member(warp("out", depth), ("z", "y", "x"), near=near)], inlined)
    check(bound, made)


@pytest.mark.parametrize("kind", ["clamped", "mirrored", "wrapped", "zero"])
def test_boundary_conditions(kind: str) -> None:
    img = Input("img", int32, 2)
    edge = img.constant(0) if kind == "zero" else getattr(img, kind)()
    first, out = Func("first"), Func("out")
    first[y, x] = edge[y - 2, x] + 3 * edge[y, x + 2]
    out[y, x] = first[y + 1, x - 1] - first[y - 1, x + 1]
    bound = bind(Pipeline(out.over(y=(0, 21), x=(0, 70)), name="faces"), {"img": (21, 70)})
    inlined = [n for n in bound.funcs if n not in ("first", "out")]
    tile = member(warp("out", 4), "yx", first="tx=30 sx=1 sy=5")
    check(bound, kernel(bound, [root("out", "by=4 bx=2 wy=2 wx=2 tx=28 sy=3")], [tile], inlined))


def test_stages_of_one_func_keep_values_in_registers() -> None:
    bound = bind(product_pipeline(), {"a": (40, 30), "b": (30, 50)})
    roots = [root("dot", "by=5 bx=1 wy=4 wx=2 tx=32 sy=2"), root("dot.1", "by=5 bx=1 wy=4 wx=2 tx=32 sy=2 rr.k=30")]
    scaled = root("out", "by=10 bx=4 wy=2 tx=8 ty=2 sy=1 sx=2")
    made = check(bound, kernel(bound, roots), kernel(bound, [scaled]))
    first, _ = (print_cuda(k) for k in lower(bound, made).kernels)
    assert first.body.count("this warp's tile") == 2  # one nest, in interior and boundary code


def test_producers_in_threads_and_aligned_tiles() -> None:
    bound = bind(chain_pipeline(3), {"img": (30, 61)})
    aligned = replace(member(warp("out", 4), "yx", f1="tx=17 sx=2 sy=7"), aligned=TileAlignment(4, 1))
    inside = member(thread("out", 6), "yx", f2="sy=2 sx=2")
    check(bound, kernel(bound, [root("out", "by=2 bx=1 wy=3 wx=3 tx=25 sy=5")], [aligned, inside], ["img_clamped"]))


def test_cache_reads_and_materialised_tiles() -> None:
    bound = blur()
    staged = member(warp("out", 4), "yx", **{"img.staged": "tx=26 sy=8"})
    tiles = [staged, member(warp("out", 4), "yx", across="sy=6 tx=24")]
    check(bound, kernel(bound, [root("out", "by=7 bx=2 wy=2 wx=2 sy=4 tx=24")], tiles, ["img_clamped"]))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mark", range(6))
def test_each_barrier_is_needed(mark: int, seed: int) -> None:
    """A kernel without one of its barriers is stopped, in interior and in boundary code."""
    bound = bind(chain_pipeline(4), {"img": (33, 50)})
    tiles = [member(warp("out", 3), "yx", **{f"f{k}": f"tx=22 sy={13 - 2 * k}"}) for k in (1, 2, 3)]
    (found,) = printed(bound, kernel(bound, [root("out", "by=5 bx=2 wx=2 tx=16 sy=7")], tiles, ["img_clamped"]))
    lines = found.body.split("\n")
    barriers = [k for k, line in enumerate(lines) if "WARP_BARRIER" in line]
    assert len(barriers) == 6
    img = elements(bound)["img"]

    def run(text: str) -> None:
        compiled = compile_emulated(
            text, found.name, [_spec(p) for p in found.params],
            common_prelude=scalar_prelude(called_scalar_functions(text)), site_depths=found.site_depths,
        )  # fmt: skip
        compiled.launch(found.grid, found.block, found.shared_bytes, [img, np.zeros((33, 50), np.uint16)], seed)

    run(found.body)
    with pytest.raises(EmulatorError) as caught:
        run("\n".join(line for k, line in enumerate(lines) if k != barriers[mark]))
    assert caught.value.kind in (ErrorKind.RACE, ErrorKind.UNINITIALISED_READ)
    assert caught.value.buffer in ("f1", "f2", "f3")


def with_warp_tiles(bound: BoundPipeline, made: Schedule, seed: int) -> tuple[Schedule, int]:
    """Return a schedule with warp tiles in all kernels where random ones are legal, and the number of these."""
    rng = np.random.default_rng(seed)
    drawn = [random_warp_tiles(bound, k, H200, rng) for k in made.kernels]
    kernels = tuple(other or k for other, k in zip(drawn, made.kernels, strict=True))
    return replace(made, kernels=kernels), sum(k is not None for k in drawn)


def emulated(bound: BoundPipeline, made: Schedule, inputs: Arrays, params: dict[str, Any]) -> np.ndarray:
    """Return the only output of a schedule, computed by the emulator."""
    program = lower(bound, made)
    outputs = {n: np.zeros(a.extents, a.buffer.dtype.numpy) for n, a in program.outputs.items()}
    EmulatedExecutable(program).run(inputs, outputs, params)
    (result,) = outputs.values()
    return result


def test_local_laplacian_differs_from_numpy_by_exp_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    app = get_app("local_laplacian")
    inputs = app.make_inputs(app.small_sizes)
    for polynomial in (False, True):
        if polynomial:
            monkeypatch.setattr(local_laplacian, "exp", lambda v: 1 + v + v * v * 0.5)
        pipeline, sizes = app.configure({"levels": 3, "pyramid_levels": 2})
        bound = bind(pipeline, app.shapes(app.small_sizes), sizes)
        params: dict[str, Any] = {p.name: p.default for p in pipeline.params}
        drawn = sample_schedule(bound, H200, np.random.default_rng(1), varied=True)
        made, count = with_warp_tiles(bound, drawn, 1)
        assert count and violations(bound, made, H200) == []
        of_warps, of_blocks = (emulated(bound, s, inputs, params) for s in (made, drawn))
        np.testing.assert_array_equal(of_warps, of_blocks)
        (expected,) = interpret(pipeline, inputs, params).values()
        np.testing.assert_allclose(of_warps.astype(int), expected.astype(int), rtol=0, atol=0 if polynomial else 1)


SHORT = ("harris", "blur", "hist", "bilateral_grid")
LONG = ("unsharp", "interpolate", "pyramid_blend", "camera_pipe", "canny", "smoother7pt", "max_filter")


@pytest.mark.parametrize("name", [*SHORT, *(pytest.param(n, marks=pytest.mark.fuzz) for n in LONG)])
def test_random_schedules_of_apps_agree(name: str) -> None:
    app, bound = get_app(name), short_app(name)
    params: dict[str, Any] = {p.name: p.default for p in bound.pipeline.params}
    found = 0
    for seed in range(3):
        drawn = sample_schedule(bound, H200, np.random.default_rng(seed), varied=seed > 0)
        made, count = with_warp_tiles(bound, drawn, seed)
        found += count
        assert violations(bound, made, H200) == []
        assert from_json(to_json(bound, made), bound) == made
        assert_computes(bound, made, app.make_inputs(app.small_sizes), params, seed=seed)
        for k in made.kernels:
            assert merge_warp_loops(bound, k) == k or k.warp_loops
    assert found
