"""CUDA text: grids of any shape, threads of nests of different size, names of all kinds; NVRTC compiles it."""

from __future__ import annotations

import itertools
import math
import re
from types import SimpleNamespace

import numpy as np
import pytest

from autosched import Func, Input, Param, Pipeline, Var, float16, float32, uint8
from autosched.analysis.bind import bind
from autosched.codegen.cuda import MAX_GRID_YZ, CudaKernel, grid_mapping, print_cuda
from autosched.lower.program import Program, lower
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.runtime.compile.nvrtc_pool import compile_many
from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree
from tests.schedule.building import (
    block,
    blur,
    blur_with_shared,
    chain_pipeline,
    kernel,
    member,
    product_pipeline,
    root,
    schedule,
)
from tests.schedule.corner_cases import CORNER_CASES

H200 = get_target("h200")
needs_nvrtc = pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")


def printed(program: Program) -> list[CudaKernel]:
    return [print_cuda(k) for k in program.kernels]


# ---- grid


def decoded(lines: list[str], at: tuple[int, int, int]) -> dict[str, int]:
    """Return the block loops that the decoding lines give for a block."""
    block = SimpleNamespace(x=at[0], y=at[1], z=at[2])
    found = {}
    for line in lines:
        name, expression = re.fullmatch(r"const int (\w+) = (.*);  // \d+ blocks", line).groups()  # type: ignore[union-attr]
        python = expression.replace("(int)", "").replace("/", "//")
        found[name] = eval(python, {"blockIdx": block})
    return found


@pytest.mark.parametrize(
    "sizes",
    [(), (1,), (7,), (3, 5), (2, 3, 5), (1, 4, 1, 3), (2, 3, 2, 5), (2, 1, 3, 2, 5), (3, 2, 2, 2, 3)],
)
def test_every_block_is_decoded_once(sizes: tuple[int, ...]) -> None:
    loops = tuple((f"l{k}", n) for k, n in enumerate(sizes))
    grid, lines = grid_mapping(loops)
    blocks = [decoded(lines, at) for at in itertools.product(*map(range, grid))]
    assert math.prod(grid) == math.prod(sizes) == len({tuple(b.items()) for b in blocks})
    for b in blocks:
        assert set(b) == {name for name, n in loops if n > 1}
        assert all(0 <= b[name] < n for name, n in loops if n > 1)


def test_up_to_three_loops_are_axes_with_the_innermost_as_x() -> None:
    grid, lines = grid_mapping((("z", 4), ("y", 5), ("one", 1), ("x", 6)))
    assert grid == (6, 5, 4)
    assert [line.split(";")[0] for line in lines] == [
        "const int z = blockIdx.z", "const int y = blockIdx.y", "const int x = blockIdx.x",
    ]  # fmt: skip


@pytest.mark.parametrize("sizes", [(MAX_GRID_YZ + 1, 3), (MAX_GRID_YZ + 1, 2, 3), (2, 2, 2, 2)])
def test_loops_that_do_not_fit_the_axes_are_flattened(sizes: tuple[int, ...]) -> None:
    grid, lines = grid_mapping(tuple((f"l{k}", n) for k, n in enumerate(sizes)))
    assert grid == (math.prod(sizes), 1, 1)
    for n in (0, 1, math.prod(sizes) // 2, math.prod(sizes) - 1):
        expected = np.unravel_index(n, sizes)
        assert decoded(lines, (n, 0, 0)) == {f"l{k}": int(v) for k, v in enumerate(expected)}


def test_a_long_innermost_loop_stays_an_axis() -> None:
    assert grid_mapping((("y", 3), ("x", 1 << 20)))[0] == (1 << 20, 3, 1)


def five_dimensions(tiles: str) -> Program:
    bound = CORNER_CASES["five_dimensions"]().bound()
    found = schedule(bound, kernel(bound, [root("out", tiles)], (), ["f"]))
    assert violations(bound, found, H200) == []
    return lower(bound, found)


def test_kernels_with_five_block_loops_run() -> None:
    program = five_dimensions("bv=2 bw=3 bz=2 by=5 bx=3 tx=2 tz=2")
    (k,) = printed(program)
    assert k.grid == (2 * 3 * 2 * 5 * 3, 1, 1) and k.block == (2, 2, 1)
    assert_backends_agree(program.bound, program)


def test_kernels_with_a_grid_beyond_the_y_limit_run() -> None:
    img, out = Input("img", uint8, 2), Func("out")
    y, x = Var("y"), Var("x")
    out[y, x] = img[y, x] * 2 + img[y, 0]
    rows = MAX_GRID_YZ + 5
    bound = bind(Pipeline([out.over(y=(0, rows), x=(0, 3))], name="tall"), {"img": (rows, 3)})
    program = lower(bound, schedule(bound, kernel(bound, [root("out", f"by={rows} bx=3")])))
    assert printed(program)[0].grid == (rows * 3, 1, 1)
    assert_backends_agree(bound, program)


# ---- threads


def test_threads_beyond_a_nests_extent_sit_out() -> None:
    """Shared memory is filled by 34 x 10 threads, the tile computed by 32 x 8 of them."""
    bound = blur()
    held = member(block("out", 2), "yx", across="tx=32 ty=10")
    found = schedule(bound, kernel(bound, [root("out", "by=7 bx=5 ty=8 tx=16")], [held], ["img_clamped"]))
    assert violations(bound, found, H200) == []
    program = lower(bound, found)
    (k,) = printed(program)
    assert k.block == (32, 16, 1) and "KERNEL(blur_out, 512)(" in k.body
    assert "if (y_t < 8) {" in k.body or "if (y_t1 < 8) {" in k.body
    assert_backends_agree(bound, program)


def test_one_thread_does_the_work_of_a_nest_without_threads() -> None:
    """A nest without thread loops beside one with them runs in thread 0 of each axis."""
    bound = bind(chain_pipeline(2), {"img": (6, 40)})
    held = member(block("out", 2), "yx", f1="sy=3 sx=21")
    found = schedule(bound, kernel(bound, [root("out", "by=3 bx=2 tx=20 ty=2")], [held], ["img_clamped"]))
    assert violations(bound, found, H200) == []
    program = lower(bound, found)
    assert "if (threadIdx.x == 0 && threadIdx.y == 0) {" in swapped(printed(program)[0].body)
    assert_backends_agree(bound, program)


def swapped(text: str) -> str:
    """Return a text in which conditions on threads stand in the order of the axes."""
    return text.replace("threadIdx.y == 0 && threadIdx.x == 0", "threadIdx.x == 0 && threadIdx.y == 0")


# ---- texts


def test_parameters_are_inputs_outputs_and_scalars_in_order() -> None:
    y, x = Var("y"), Var("x")
    img, out = Input("img", float32, 2), Func("out")
    gain, offset = Param("gain", float16), Param("offset", float32)
    out[y, x] = img[y, x] * gain + offset
    bound = bind(Pipeline([out.over(y=(0, 8), x=(0, 32))], name="scaled"), {"img": (8, 32)})
    (k,) = printed(lower(bound, schedule_roots(bound, H200)))
    assert [(p.kind, p.name, p.dtype, p.count) for p in k.params] == [
        ("in", "img", float32, 256), ("out", "out", float32, 256), ("scalar", "gain", float16, 1),
        ("scalar", "offset", float32, 1),
    ]  # fmt: skip
    head = k.body[: k.body.index("{")]
    assert "GLOBAL_IN(float, img, 256)," in head and "GLOBAL_OUT(float, out, 256)," in head
    assert "SCALAR(float, gain)," in head and "SCALAR(float, offset))" in head


def test_every_loop_level_has_a_comment() -> None:
    bound = blur()
    text = print_cuda(lower(bound, blur_with_shared(bound)).kernels[0]).body
    assert "// computes out; with across; inlines img_clamped" in text
    assert "const int y_b = blockIdx.y;  // 7 blocks" in text
    assert "// across: 10 x 32 points in shared memory" in text and "// out: this block's tile" in text
    for line in text.splitlines():
        if line.strip().startswith("for (") or "threadIdx" in line:
            assert "//" in line or "==" in line, line


def test_divisions_by_constants_are_exact_products() -> None:
    bound = blur()
    whole = kernel(bound, [root("out", "by=7 bx=3 tx=32 ty=8")], (), ["across", "img_clamped"])
    (k,) = printed(lower(bound, schedule(bound, whole)))
    assert "as_div_const_f32(" in k.body and "/ 3." not in k.body


def test_sums_of_products_have_one_store_a_point() -> None:
    bound = bind(product_pipeline(), {"a": (64, 64), "b": (64, 64)})
    tile = "by=4 bx=2 tx=32 ty=4 sy=4"
    sums = kernel(bound, [root("dot", tile), root("dot.1", "by=4 bx=2 tx=32 ty=4 rr.k=64 sy=4")])
    program = lower(bound, schedule(bound, sums, kernel(bound, [root("out", "by=64 bx=2 tx=32")])))
    text = printed(program)[0].body
    assert "REGISTER(float, dot_r, 4);" in text
    assert len(re.findall(r"STORE\(\d+, dot,", text)) == 1
    assert text.rindex(" dot, ") > text.rindex("r_k")


# ---- names and compilers


@needs_nvrtc
@pytest.mark.parametrize("name", CORNER_CASES)
def test_nvrtc_compiles_corner_cases(name: str) -> None:
    bound = CORNER_CASES[name]().bound()
    compile_all(printed(lower(bound, sample_schedule(bound, H200, np.random.default_rng(0)))))


@needs_nvrtc
def test_nvrtc_compiles_wide_indices_and_large_shared_memory() -> None:
    y, x = Var("y"), Var("x")
    img, out = Input("img", uint8, 2), Func("out")
    out[y, x] = img[y, x] + img[y + 1, x]
    bound = bind(Pipeline([out.over(y=(0, 70_000), x=(0, 40_000))], name="large"), {"img": (70_001, 40_000)})
    compile_all(printed(lower(bound, schedule_roots(bound, H200))))


def compile_all(kernels: list[CudaKernel]) -> None:
    for k, cubin in zip(
        kernels, compile_many([k.source for k in kernels], "sm_90", names=[k.name for k in kernels]), strict=True
    ):
        assert not isinstance(cubin, Exception), cubin
        assert k.name in cubin.kernels


@pytest.mark.parametrize("seed", range(3))
def test_names_of_the_language_and_of_code_run_everywhere(seed: int) -> None:
    """C compiles them in the C backend, C++ in the emulator."""
    bound = CORNER_CASES["names_that_code_uses"]().bound()
    program = lower(bound, sample_schedule(bound, H200, np.random.default_rng(seed)))
    names = set(program.names.values())
    assert names.isdisjoint({"int", "float", "LOAD", "threadIdx", "block", "for", "Größe"})
    assert all(re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) for name in names)
    assert_backends_agree(bound, program)
