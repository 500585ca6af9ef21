"""Exported CUDA: the host function and its kernels run in the emulator, and nvcc compiles them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched
from autosched import ScheduledPipeline
from autosched.apps import get_app
from autosched.errors import CompileError
from autosched.export import cuda_source
from autosched.runtime.compile.host_compiler import find_compiler
from autosched.runtime.compile.nvrtc import Cubin, have_nvrtc
from autosched.target import get_target
from tests.export.building import (
    assert_same_bits,
    emulated_example,
    emulated_library,
    expected,
    program,
    results,
    run,
)
from tests.export.pipelines import ODD_SHAPES, odd, odd_inputs, with_large_tiles
from tests.lower.test_warp_tiles import blur_kernel
from tests.schedule.building import blur, schedule
from tests.schedule.scans import inputs_of, seam

INVALID = 1
"""cudaErrorInvalidValue"""


def app_schedule(name: str, strategy: str) -> ScheduledPipeline:
    app = get_app(name)
    return autosched.schedule(app.build(), app.shapes(sizes_of(name)), "h200", strategy=strategy)


def sizes_of(name: str) -> Mapping[str, int]:
    """Return an app's small sizes; for the one whose kernels should access vectors, sizes that these divide."""
    return {"H": 256, "W": 512} if name == "unsharp" else get_app(name).small_sizes


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("blur", "roots"),
        ("harris", "beam"),
        ("unsharp", "beam"),
        ("unsharp_polymage", "beam"),
        ("hist", "beam"),
        ("layer_norm", "beam"),
        ("bilateral_grid", "roots"),
        pytest.param("local_laplacian", "roots", marks=pytest.mark.fuzz),
    ],
)
def test_suite_in_the_emulator(name: str, strategy: str, tmp_path: Path) -> None:
    scheduled = app_schedule(name, strategy)
    inputs = get_app(name).make_inputs(sizes_of(name))
    example = emulated_example(scheduled.export(tmp_path / "exported"), tmp_path)
    assert_same_bits(results(example, scheduled, inputs), expected(scheduled, inputs))


@pytest.mark.parametrize("strategy", ["roots", "beam"])
def test_types_outputs_and_names_in_the_emulator(strategy: str, tmp_path: Path) -> None:
    scheduled = autosched.schedule(odd(), ODD_SHAPES, "h200", strategy=strategy)
    example = emulated_example(scheduled.export(tmp_path / "exported"), tmp_path)
    assert_same_bits(results(example, scheduled, odd_inputs()), expected(scheduled, odd_inputs()))


def test_tiles_of_warps_in_the_emulator(tmp_path: Path) -> None:
    bound = blur()
    made = schedule(bound, blur_kernel("by=3 bx=1 wy=5 wx=4 sy=4 tx=24"))
    scheduled = ScheduledPipeline(bound, made, get_target("h200"))
    inputs = {"img": np.random.default_rng(0).random((53, 77)).astype(np.float32)}
    example = emulated_example(scheduled.export(tmp_path / "exported"), tmp_path)
    assert_same_bits(results(example, scheduled, inputs), expected(scheduled, inputs))


def test_large_shared_memory_is_asked_for(tmp_path: Path) -> None:
    scheduled = with_large_tiles()
    assert scheduled.program.kernels[0].shared_bytes > 48 * 1024
    inputs = get_app("blur").make_inputs({"H": 128, "W": 256})
    example = emulated_example(scheduled.export(tmp_path / "exported"), tmp_path)  # fails without the request
    assert_same_bits(results(example, scheduled, inputs), expected(scheduled, inputs))


@pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")
def test_kernels_that_need_not_spill_are_given_registers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduled = app_schedule("blur", "roots")
    plain = Path(scheduled.export(tmp_path / "plain").directory, "blur.cu").read_text()
    assert ", 1)(" not in plain
    monkeypatch.setattr(Cubin, "has_relaxed_bounds", True)
    exported = scheduled.export(tmp_path / "exported")
    assert Path(exported.directory, "blur.cu").read_text().count(", 1)(") == len(scheduled.program.kernels)
    inputs = get_app("blur").make_inputs(sizes_of("blur"))
    example = emulated_example(exported, tmp_path)
    assert_same_bits(results(example, scheduled, inputs), expected(scheduled, inputs))


def test_a_refused_kernel_does_not_keep_others_from_being_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_source, "compile_many", lambda sources, *_, **__: [CompileError("no")] * len(sources))
    exported = app_schedule("blur", "roots").export(tmp_path / "exported")
    assert "KERNEL(" in Path(exported.directory, "blur.cu").read_text()


class _Blur:
    """The function exported for a blur whose kernels load vectors, in the emulator, with memory for it."""

    def __init__(self, build: Path, *, any_alignment: bool = False) -> None:
        self.scheduled = app_schedule("blur", "roots")
        exported = self.scheduled.export(build / "exported", any_alignment=any_alignment)
        self.function: Any = ctypes.CDLL(str(emulated_library(exported, build)))["blur"]
        self.function.argtypes = [ctypes.c_void_p] * 4
        self.inputs = get_app("blur").make_inputs(get_app("blur").small_sizes)
        self.output_bytes = expected(self.scheduled, self.inputs)["output"].nbytes
        self.memory = np.zeros(1 << 17, np.uint8)
        self.start = self.memory.ctypes.data + -self.memory.ctypes.data % 256
        self.input = self.place(0)
        self.output, self.workspace = self.start + (1 << 15), self.start + (1 << 16)

    def place(self, offset: int) -> int:
        """Put the input somewhere, and return its address."""
        image = self.inputs["input"]
        ctypes.memmove(self.start + offset, image.ctypes.data, image.nbytes)
        return self.start + offset

    def result(self, address: int) -> bytes:
        return ctypes.string_at(address, self.output_bytes)


def test_arguments_are_checked(tmp_path: Path) -> None:
    blur = _Blur(tmp_path)
    assert blur.scheduled.program.workspace_bytes > 0
    assert blur.function(None, blur.output, blur.workspace, None) == INVALID
    assert blur.function(blur.input, None, blur.workspace, None) == INVALID
    assert blur.function(blur.input, blur.output, None, None) == INVALID
    assert blur.function(blur.input + 1, blur.output, blur.workspace, None) == INVALID
    assert blur.function(blur.input, blur.output, blur.workspace + 128, None) == INVALID
    assert blur.function(blur.input, blur.input, blur.workspace, None) == INVALID  # in place
    assert blur.function(blur.input, blur.input + blur.inputs["input"].nbytes - 2, blur.workspace, None) == INVALID
    assert blur.function(blur.input, blur.output, blur.output + 256, None) == INVALID
    assert blur.result(blur.output) == bytes(blur.output_bytes)
    assert blur.function(blur.input, blur.output, blur.workspace, None) == 0
    assert blur.result(blur.output) == expected(blur.scheduled, blur.inputs)["output"].tobytes()


def test_any_alignment(tmp_path: Path) -> None:
    blur = _Blur(tmp_path, any_alignment=True)
    assert blur.function(blur.place(2), blur.output + 2, blur.workspace, None) == 0
    assert blur.result(blur.output + 2) == expected(blur.scheduled, blur.inputs)["output"].tobytes()


def test_alignment_of_vectors_is_told_and_checked(tmp_path: Path) -> None:
    scheduled = app_schedule("unsharp", "beam")
    text = (scheduled.export(tmp_path / "vectors").directory / "unsharp.cu").read_text()
    assert "LOAD_VECTOR(" in text.partition("\nKERNEL(")[2]
    header = (tmp_path / "vectors" / "unsharp.h").read_text()
    aligned = int(header.partition("input input")[2].partition("a multiple of ")[2].partition(" bytes")[0])
    assert aligned in (8, 16)
    count = 3 * 256 * 512 * 4
    assert f"{{input, {count}u, {aligned}u, 0}}" in text
    scalar = (scheduled.export(tmp_path / "scalar", any_alignment=True).directory / "unsharp.cu").read_text()
    assert "LOAD_VECTOR(" not in scalar.partition("\nKERNEL(")[2]
    assert f"{{input, {count}u, 4u, 0}}" in scalar


NVCC_FLAGS = ("-arch=sm_90", "-std=c++17", "-Xcompiler", "-Wall,-Werror")


@pytest.mark.parametrize("pipeline", ["odd", "large tiles"])
def test_nvcc_compiles_it(pipeline: str, tmp_path: Path) -> None:
    """The CUDA file compiles, the header is C99, and the example links."""
    nvcc = program("nvcc")
    scheduled = with_large_tiles()
    if pipeline == "odd":
        scheduled = autosched.schedule(odd(), ODD_SHAPES, "h200", strategy="beam")
    exported = scheduled.export(tmp_path)
    name = exported.name
    run([nvcc, *NVCC_FLAGS, "-c", f"{name}.cu", "-o", "kernels.o"], tmp_path)
    run([nvcc, *NVCC_FLAGS, "example.cpp", "kernels.o", "-o", "example"], tmp_path)
    includes = ["-isystem", str(Path(nvcc).resolve().parents[1] / "include")]
    if (Path(includes[1]) / "cuda_runtime_api.h").exists():
        command = [*find_compiler("c").command, "-Wall", "-Wextra", "-Werror", "-std=c99", "-fsyntax-only", *includes]
        run([*command, "-x", "c", f"{name}.h"], tmp_path)


def test_two_exports_link_into_one_program(tmp_path: Path) -> None:
    """Kernels of equal names do not clash, and only the second export has fast arithmetic."""
    nvcc = program("nvcc")
    scheduled = app_schedule("blur", "roots")
    for name in ("first", "second"):
        scheduled.export(tmp_path / name, name=name, fast_math=name == "second")
        run([nvcc, *NVCC_FLAGS, "-c", f"{name}/{name}.cu", "-o", f"{name}.o"], tmp_path)
    main = (
        '#include "first/first.h"\n#include "second/second.h"\n'
        "int main() { return (first_workspace_bytes() + second_workspace_bytes()) == 0 && first(0, 0, 0, 0)\n"
        "    && second(0, 0, 0, 0); }\n"
    )
    (tmp_path / "main.cpp").write_text(main)
    run([nvcc, *NVCC_FLAGS, "main.cpp", "first.o", "second.o", "-o", "main"], tmp_path)
    run([tmp_path / "main"])
    assert "-use_fast_math" in (tmp_path / "second" / "CMakeLists.txt").read_text()
    assert "-use_fast_math" not in (tmp_path / "first" / "CMakeLists.txt").read_text()


@pytest.mark.gpu
def test_on_a_gpu(tmp_path: Path) -> None:
    nvcc, app = program("nvcc"), get_app("blur")
    scheduled = autosched.schedule(app.build(), app.shapes(app.small_sizes), "cuda", strategy="beam")
    scheduled.export(tmp_path / "exported")
    sources = [tmp_path / "exported" / "blur.cu", tmp_path / "exported" / "example.cpp"]
    run([nvcc, f"-arch={scheduled.target.arch}", "-std=c++17", *sources, "-o", tmp_path / "example"])
    inputs = app.make_inputs(app.small_sizes)
    assert_same_bits(results(tmp_path / "example", scheduled, inputs), expected(scheduled, inputs))


def test_steps_of_a_scan_are_launches_in_a_loop(tmp_path: Path) -> None:
    bound = seam(6, 3000)
    scheduled = autosched.schedule(bound.pipeline, dict(bound.shapes), "h200", strategy="roots")
    exported = scheduled.export(tmp_path / "seam")
    (text,) = (f.read_text() for f in Path(exported.directory).glob("*.cu"))
    assert "for (int as_step = 0; as_step < 5; as_step++) {" in text
    inputs = inputs_of(bound)
    example = emulated_example(exported, tmp_path)
    assert_same_bits(results(example, scheduled, inputs), expected(scheduled, inputs))
