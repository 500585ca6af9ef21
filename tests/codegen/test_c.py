"""C text: blocks on cores, lanes in vector loops, memory kept within its bounds, and the interpreter's results."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched import (
    Func,
    Input,
    Param,
    Pipeline,
    RDom,
    Var,
    cast,
    clamp,
    float16,
    float32,
    int32,
    int64,
    select,
    uint16,
)
from autosched import min as min_
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.c import CSource, print_c, print_c_library
from autosched.lang.dtypes import DType
from autosched.lower.program import Program, lower
from autosched.reference import interpret
from autosched.runtime.backends.cpu import CpuExecutable, compile_library
from autosched.runtime.compile.host_compiler import find_compiler, kernel_flags
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
    thread,
)
from tests.schedule.corner_cases import CORNER_CASES

H200, CPU = get_target("h200"), get_target("cpu")
y, x = Var("y"), Var("x")


def program_of(tiles: str, *, height: int = 53, width: int = 77) -> Program:
    """The blur in one kernel with everything inlined."""
    bound = blur(height, width)
    found = schedule(bound, kernel(bound, [root("out", tiles)], (), ["across", "img_clamped"]))
    assert violations(bound, found, H200) == []
    return lower(bound, found)


def lane_loops(text: str) -> list[str]:
    """Return the heads of the loops to vectorise."""
    return re.findall(r"#pragma omp simd\n\s*for \((.*?)\) \{", text)


def test_blocks_are_shared_among_the_cores() -> None:
    text = print_c(program_of("by=7 bx=3 tx=32 ty=8")).text
    assert text.count("#pragma omp parallel") == 1 and "#pragma omp for schedule(static)" in text
    assert "for (long long block = 0; block < 21LL; block++)" in text
    assert "const int y_b = (int)(block / 3 % 7);  // 7 blocks" in text
    assert "const int x_b = (int)(block / 1 % 3);  // 3 blocks" in text


def test_a_single_block_starts_no_threads() -> None:
    program = program_of("by=1 bx=1 tx=32 ty=8 sy=7 sx=3")
    assert "#pragma omp parallel" not in print_c(program).text
    assert_backends_agree(program.bound, program, emulate=False)


@pytest.mark.parametrize(
    "tiles",
    ["by=7 bx=3 tx=32 ty=8", "by=7 bx=3 sx=2 tx=16 ty=8", "by=4 bx=5 ty=14 tx=16", "by=53 bx=77", "bx=77 ty=53",
     "by=6 bx=3 tx=8 sx=4 ty=3 sy=3", "by=2 bx=2 tx=13 sx=3 ty=3 sy=9"],
)  # fmt: skip
def test_every_shape_of_tile_gives_the_same(tiles: str) -> None:
    program = program_of(tiles)
    assert_backends_agree(program.bound, program)


def test_the_tail_of_a_row_shortens_the_lane_loop() -> None:
    """Where the last tile is cut, the loop over lanes ends sooner instead of asking in each lane."""
    heads = lane_loops(print_c(program_of("by=53 bx=3 tx=32")).text)
    assert any("as_min_i32(32, -32*x_b + 77)" in head for head in heads), heads
    assert any("x_t < 32;" in head for head in heads), heads


def test_lanes_that_lie_rows_apart_form_no_vectors() -> None:
    """Forced into vectors, a 5x5 stencil across rows takes gcc a minute."""
    assert lane_loops(print_c(program_of("by=2 bx=20 ty=32 tx=4")).text) == []
    assert len(lane_loops(print_c(program_of("by=14 bx=3 tx=32 ty=4")).text)) > 0


def test_lanes_are_innermost_and_registers_have_one_for_each() -> None:
    bound = bind(product_pipeline(), {"a": (64, 40), "b": (40, 64)})
    tile = "by=16 bx=2 tx=32 sy=4"
    sums = kernel(bound, [root("dot", tile), root("dot.1", "by=16 bx=2 tx=32 rr.k=40 sy=4")])
    program = lower(bound, schedule(bound, sums, kernel(bound, [root("out", "by=64 bx=2 tx=32")])))
    text = print_c(program).text
    assert f"REGISTER(float, dot_r, {4 * 32});" in text
    k = text.index("for (int r_k")
    assert k < text.index("#pragma omp simd", k) < text.index("dot_r", text.index("#pragma omp simd", k))
    assert_backends_agree(bound, program)


def test_shared_memory_is_an_array_of_the_core() -> None:
    bound = blur()
    program = lower(bound, blur_with_shared(bound))
    text = print_c(program).text
    (size,) = {k.shared_bytes for k in program.kernels}
    assert f"unsigned char as_shared[{size}] __attribute__((aligned(64)));" in text
    assert text.index("#pragma omp parallel") < text.index(f"as_shared[{size}]") < text.index("#pragma omp for")
    assert "// all threads meet" in text
    assert_backends_agree(bound, program)


def test_members_in_one_thread_keep_their_values_apart_from_other_lanes() -> None:
    bound = bind(chain_pipeline(3), {"img": (37, 61)})
    members = [member(block("out", 2), "yx", f1="tx=32 ty=4 sy=3 sx=2"), member(thread("out", 4), "yx", f2="sy=3 sx=3")]
    found = schedule(
        bound, kernel(bound, [root("out", "by=5 bx=2 tx=16 ty=4 sy=2 sx=2")], members, ["img_clamped"])
    )  # fmt: skip
    assert violations(bound, found, H200) == []
    assert_backends_agree(bound, lower(bound, found))


def test_intermediates_in_one_workspace_do_not_overwrite_each_other() -> None:
    bound = bind(chain_pipeline(6), {"img": (40, 50)})
    kernels = []
    for f in (f for f in bound.funcs.values() if f.boundary is None):
        rows, columns = f.extents
        kernels.append(kernel(bound, [root(f.name, f"by={rows} bx={-(-columns // 16)} tx=16")], (), ["img_clamped"]))
    found = schedule(bound, *kernels)
    assert violations(bound, found, H200) == []
    program = lower(bound, found)
    sizes = [s.buffer.count * s.buffer.dtype.bytes_ for s in program.workspace]
    assert len(sizes) == 5 and program.workspace_bytes < sum(sizes)
    assert_backends_agree(bound, program)


def test_arguments_are_named_in_order() -> None:
    img, other, out = Input("img", float32, 2), Input("other", float32, 2), Func("out")
    gain, count = Param("gain", float16, default=2.5), Param("count", int64, default=7)
    out[y, x] = img[y, x] * gain + other[y, x] * count
    pipeline = Pipeline([out.over(y=(0, 9), x=(0, 33))], name="scaled")
    bound = bind(pipeline, {"img": (9, 33), "other": (9, 33)})
    program = lower(bound, schedule_roots(bound, CPU))
    source: CSource = print_c(program)
    assert set(source.arrays) == {"img", "other", "out"}
    assert dict(source.scalars) == {"gain": float16, "count": int64}
    rng = np.random.default_rng(1)
    inputs: dict[str, Any] = {n: rng.random((9, 33), np.float32) for n in ("img", "other")}
    outputs = {"out": np.zeros((9, 33), np.float32)}
    params = {"gain": 0.3, "count": -(10**12)}
    CpuExecutable(program).run(inputs, outputs, params)
    np.testing.assert_array_equal(outputs["out"], interpret(pipeline, inputs, params)["out"])


def scaled_roots(factor: float, extent: int) -> tuple[Pipeline, BoundPipeline, Program]:
    img, out = Input("img", float32, 1), Func("out")
    gain = Param("gain", float32, default=2.5)
    out[x] = img[x] * gain + factor
    pipeline = Pipeline([out.over(x=(0, extent))], name="scaled")
    bound = bind(pipeline, {"img": (extent,)})
    return pipeline, bound, lower(bound, schedule_roots(bound, CPU))


def test_pipelines_of_a_library_have_entries_of_their_own() -> None:
    cases = [scaled_roots(1.0, 40), scaled_roots(2.0, 40), scaled_roots(1.0, 40)]
    sources = print_c_library([program for _, _, program in cases])
    assert len({source.text for source in sources}) == 1
    assert len({source.entry for source in sources}) == 3
    assert sources[0].text.count("static __attribute__((noinline))") == 2  # the third kernel equals the first one
    executables = compile_library([program for _, _, program in cases])
    assert len({executable.library for executable in executables}) == 1
    inputs: dict[str, Any] = {"img": np.random.default_rng(1).random(40, np.float32)}
    for (pipeline, _, _), executable in zip(cases, executables, strict=True):
        outputs = {"out": np.zeros(40, np.float32)}
        executable.run(inputs, outputs, {"gain": 0.5})
        np.testing.assert_array_equal(outputs["out"], interpret(pipeline, inputs, {"gain": 0.5})["out"])


def test_it_includes_nothing() -> None:
    assert "#include" not in print_c(program_of("by=7 bx=3 tx=32 ty=8")).text


@pytest.mark.parametrize("name", CORNER_CASES)
def test_schedules_for_a_cpu_give_the_same(name: str) -> None:
    case = CORNER_CASES[name]()
    bound, inputs = case.bound(), case.inputs()
    expected = interpret(case.pipeline, inputs, case.params)
    for found in (schedule_roots(bound, CPU), sample_schedule(bound, CPU, np.random.default_rng(1))):
        program = lower(bound, found)
        outputs = {n: np.zeros(a.extents, a.buffer.dtype.numpy) for n, a in program.outputs.items()}
        CpuExecutable(program).run(inputs, outputs, {p.name: case.params[p.name] for p in bound.scalars})
        for n, array in outputs.items():
            np.testing.assert_array_equal(array, expected[n], err_msg=n)


def test_sums_side_by_side_in_registers_lose_nothing() -> None:
    """Ten sums in registers over twenty terms: gcc 12 vectorises that loop wrongly unless it is kept from it."""
    a, part, f = Input("a", int32, 2), Func("part"), Func("f")
    k, j, p = Var("k"), RDom("j", j=20), RDom("p", k=10)
    part[y, k] = 0
    part[y, k] += a[y, k + 10 * j.j]
    f[y] = 0
    f[y] += part[y, p.k]
    bound = bind(Pipeline(f.over(y=(0, 64)), name="sums"), {"a": (64, 200)})
    parts = member(thread("f.1", 1), "yk", part="sk=10", part__1="rj.j=20 sk=10")
    found = schedule(bound, kernel(bound, [root("f", "by=64"), root("f.1", "by=64 rp.k=10")], [parts]))
    assert violations(bound, found, H200) == []
    program = lower(bound, found)
    assert print_c(program).text.count("ONE_BY_ONE;") == 1
    assert_backends_agree(bound, program)


@pytest.mark.parametrize("follows", [True, False])
def test_terms_whose_addresses_are_loaded_are_done_one_by_one(follows: bool) -> None:
    """Merged in pairs, the second access would load its address again in every lane."""
    image, shift, out = Input("image", float32, 2), Input("shift", int32, 1), Func("out")
    t = RDom("t", t=5)
    row = clamp(shift[t.t], -3, 3) if follows else t.t
    out[y, x] = 0.0
    out[y, x] += image[y + row + 3, x + t.t]
    bound = bind(
        Pipeline(out.over(y=(0, 33), x=(0, 70)), name="terms"),
        {"image": (40, 74)} | ({"shift": (5,)} if follows else {}),
    )
    program = lower(bound, schedule_roots(bound, CPU))
    assert ("ONE_BY_ONE;" in print_c(program).text) == follows
    assert_backends_agree(bound, program)


def cells(dtype: DType, step: int) -> BoundPipeline:
    """Histograms of ``step`` neighbours along a row, one lane each."""
    image, counts = Input("image", dtype, 2), Func("counts")
    z, t = Var("z"), RDom("t", t=step)
    value = image[y, step * x + t.t]
    counts[z, y, x] = 0.0
    counts[clamp(cast(int32, value * 4), 0, 3), y, x] += cast(float32, value)
    output = counts.over(z=(0, 4), y=(0, 20), x=(0, 50))
    return bind(Pipeline(output, name="cells"), {"image": (20, 50 * step)})


@pytest.mark.parametrize(
    ("dtype", "step", "told"), [(float32, 8, True), (float32, 2, True), (uint16, 8, False), (uint16, 2, True)]
)
def test_lanes_that_store_where_data_say_form_vectors(dtype: DType, step: int, told: bool) -> None:
    """Compilers cannot prove that lanes are independent; for narrow elements at a large stride gcc loads all."""
    bound = cells(dtype, step)
    program = lower(bound, schedule_roots(bound, CPU))
    body = print_c(program).text.partition("void cells_counts1(")[2]
    lines = [line.strip() for line in body.splitlines()]
    loops = [lines[k - 1] == "#pragma omp simd" for k, line in enumerate(lines) if line.startswith("for (int x_t")]
    assert loops and loops == len(loops) // 3 * [told, told, False]  # the last of each three stores lane by lane
    assert_backends_agree(bound, program)


def conditions() -> BoundPipeline:
    """Conditions that are stored, selected, combined and negated."""
    image, rising, peak, out = Input("image", float32, 2), Func("rising"), Func("peak"), Func("out")
    at = image.clamped()
    rising[y, x] = (at[y, x] > at[y, x - 1]) & (at[y, x + 1] > at[y, x])
    along = (at[y, x] > at[y - 1, x]) & (at[y, x] >= at[y + 1, x])
    across = (at[y, x] > at[y, x - 1]) | ~rising[y, x + 1]
    peak[y, x] = select(at[y, x] > 0.5, along, select(rising[y, x], across, rising[y, x - 1] ^ along))
    out[y, x] = select(peak[y, x], at[y, x], 0.0)
    return bind(Pipeline(out.over(y=(0, 40), x=(0, 256)), name="conditions"), {"image": (40, 256)})


def test_conditions_are_stored_as_bytes_and_agree() -> None:
    bound = conditions()
    for seed in range(12):
        program = lower(bound, sample_schedule(bound, H200, np.random.default_rng(seed)))
        assert_backends_agree(bound, program)
    program = lower(bound, schedule_roots(bound, CPU))
    assert "GLOBAL_OUT(unsigned char, rising" in print_c(program).text
    assert_backends_agree(bound, program)


def test_vectors_are_formed_of_conditions(tmp_path: Path) -> None:
    compiler = find_compiler("c")
    if "free software" not in compiler.version.lower() or "-fopenmp" not in kernel_flags():
        pytest.skip("only gcc tells which loops it vectorises in this way")
    bound = conditions()
    text = print_c(lower(bound, schedule_roots(bound, CPU))).text
    (tmp_path / "kernels.c").write_text(text)
    command = [*compiler.command, *kernel_flags(), "-fopt-info-vec-optimized", "-c", "kernels.c", "-o", "kernels.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    vectorised = {int(n) for n in re.findall(r"^kernels\.c:(\d+):.*loop vectorized", done.stderr, re.MULTILINE)}
    functions = [n for n, line in enumerate(text.splitlines(), 1) if line.startswith("// computes ")]
    ends = [*functions[1:], len(text.splitlines())]
    assert len(functions) == 2  # the second inlines the condition of its select
    for first, last in zip(functions, ends, strict=True):
        assert any(first < n < last for n in vectorised), text.splitlines()[first - 1]


@pytest.mark.parametrize("mirrored", [True, False])
def test_terms_at_mirrored_rows_are_done_one_by_one(mirrored: bool) -> None:
    """Merged in pairs, the second address would not be affine in the lane, and gcc 12 vectorise neither."""
    image, out, t = Input("image", uint16, 2), Func("out"), RDom("t", t=7)
    rows = image.mirrored() if mirrored else image
    out[y, x] = cast(uint16, 65535)
    out[y, x] = min_(out[y, x], rows[y + t.t, x])
    bound = bind(Pipeline(out.over(y=(0, 33 if mirrored else 27), x=(0, 70)), name="terms"), {"image": (33, 70)})
    program = lower(bound, schedule_roots(bound, CPU))
    assert ("ONE_BY_ONE;" in print_c(program).text) == mirrored
    assert_backends_agree(bound, program)
