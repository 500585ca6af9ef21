"""Exported C: compiled with all warnings as errors, run from its example, and called with wrong arguments."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

import autosched
from autosched import ScheduledPipeline
from autosched.apps import get_app
from autosched.lang.dtypes import DType
from autosched.runtime.compile.host_compiler import find_compiler, kernel_flags
from tests.export.building import assert_same_bits, c_example, expected, results, run
from tests.export.pipelines import ODD_SHAPES, odd, odd_inputs

WARNINGS = ("-Wall", "-Wextra", "-Werror")


def app_schedule(name: str, strategy: str = "roots") -> ScheduledPipeline:
    app = get_app(name)
    return autosched.schedule(app.build(), app.shapes(app.small_sizes), "cpu", strategy=strategy)


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("blur", "roots"),
        ("harris", "beam"),
        ("unsharp_polymage", "beam"),
        ("hist", "roots"),
        ("bilateral_grid", "beam"),
        pytest.param("local_laplacian", "roots", marks=pytest.mark.fuzz),
    ],
)
def test_suite(name: str, strategy: str, tmp_path: Path) -> None:
    scheduled = app_schedule(name, strategy)
    inputs = get_app(name).make_inputs(get_app(name).small_sizes)
    example = c_example(scheduled.export(tmp_path / "exported"), tmp_path)
    assert_same_bits(results(example, scheduled, inputs), expected(scheduled, inputs))


@pytest.mark.parametrize("strategy", ["roots", "beam"])
def test_types_outputs_and_names(strategy: str, tmp_path: Path) -> None:
    scheduled = autosched.schedule(odd(), ODD_SHAPES, "cpu", strategy=strategy)
    example = c_example(scheduled.export(tmp_path / "exported"), tmp_path)
    assert_same_bits(results(example, scheduled, odd_inputs()), expected(scheduled, odd_inputs()))


def shared_library(source: Path, *flags: str) -> ctypes.CDLL:
    library = source.with_suffix(".so")
    run([*find_compiler("c").command, *flags, *WARNINGS, "-fPIC", "-shared", source, "-lm", "-o", library])
    return ctypes.CDLL(str(library))


def test_header_is_c99_and_cxx(tmp_path: Path) -> None:
    name = autosched.schedule(odd(), ODD_SHAPES, "cpu", strategy="roots").export(tmp_path).name
    run([*find_compiler("c").command, *WARNINGS, "-std=c99", "-fsyntax-only", "-x", "c", tmp_path / f"{name}.h"])
    run([*find_compiler("c++").command, *WARNINGS, "-std=c++11", "-fsyntax-only", "-x", "c++", tmp_path / f"{name}.h"])


def test_it_needs_no_openmp_and_no_flags(tmp_path: Path) -> None:
    exported = app_schedule("blur").export(tmp_path)
    run(
        [
            *find_compiler("c").command,
            *WARNINGS,
            tmp_path / "blur.c",
            tmp_path / "example.c",
            "-lm",
            "-o",
            tmp_path / "x",
        ]
    )
    assert run([tmp_path / "x"]).startswith("output: ")
    assert exported.name == "blur"


def test_arguments_are_checked(tmp_path: Path) -> None:
    scheduled = app_schedule("harris")
    exported = scheduled.export(tmp_path)
    assert exported.workspace_bytes == scheduled.program.workspace_bytes > 0
    library = shared_library(tmp_path / "harris.c", *kernel_flags("c"))
    library.harris_workspace_bytes.restype = ctypes.c_size_t
    assert library.harris_workspace_bytes() == exported.workspace_bytes
    harris = library.harris
    harris.argtypes = [ctypes.c_void_p] * 3
    image = get_app("harris").make_inputs(get_app("harris").small_sizes)["input"]
    wanted = expected(scheduled, {"input": image})["output"]
    output = np.zeros_like(wanted)
    memory = np.zeros(exported.workspace_bytes + 128, np.uint8)
    workspace = memory.ctypes.data + -memory.ctypes.data % 64
    source, target = image.ctypes.data, output.ctypes.data
    for arguments in [
        (None, target, workspace),
        (source, None, workspace),
        (source, target, None),
        (source + 2, target, workspace),
        (source, target, workspace + 8),
        (source, source + 4, workspace),
        (source, workspace + 64, workspace),
    ]:
        assert harris(*arguments) == 1, arguments
    assert not output.any()
    assert harris(source, target, workspace) == 0
    assert output.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", [autosched.float16, autosched.bfloat16], ids=str)
def test_parameters_of_16_bits_are_rounded(dtype: DType, tmp_path: Path) -> None:
    """A float is passed for them; a kernel gets the nearest number of the type, for every kind of number."""
    x = autosched.Var("x")
    image, gain = autosched.Input("image", dtype, 1), autosched.Param("gain", dtype)
    scaled = autosched.Func("scaled")
    scaled[x] = image[x] * gain
    scheduled = autosched.schedule(autosched.Pipeline(scaled), {"image": (1,)}, "cpu", strategy="roots")
    exported = scheduled.export(tmp_path)
    function = getattr(shared_library(tmp_path / f"{exported.name}.c", *kernel_flags("c")), exported.name)
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_void_p]
    one, result = np.ones(1, dtype.numpy), np.zeros(1, dtype.numpy)
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 20000, np.uint32)
    special = [
        0.0,
        -0.0,
        257.0,
        259.0,
        3.39e38,
        3.4e38,
        1e-45,
        2049.0,
        2051.0,
        65519.0,
        65520.0,
        -65520.0,
        2.0**-24,
        2.0**-25,
        3 * 2.0**-26,
        np.inf,
        np.nan,
    ]
    for number in (
        *bits.view(np.float32),
        *np.array(special, np.float32),
        *rng.standard_normal(2000).astype(np.float32),
    ):
        assert function(one.ctypes.data, result.ctypes.data, float(number), None) == 0
        with np.errstate(over="ignore", invalid="ignore"):
            rounded = number.astype(dtype.numpy)
        np.testing.assert_array_equal(np.float32(result[0]), np.float32(rounded))
        assert np.signbit(result[0]) == np.signbit(rounded) or np.isnan(rounded)
