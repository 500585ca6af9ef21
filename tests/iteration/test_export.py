"""Exported time loops: C by this machine's compiler, CUDA in the emulator; any number of steps by one function."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched import ScheduledTimeLoop
from autosched.export import Exported
from autosched.runtime.compile.host_compiler import find_compiler, kernel_flags
from tests.export.building import emulated_library, run
from tests.iteration.steps import STEPS, arrays, fused, leapfrog, repeated

SECONDS = (1.0, 1.3, 2.5)
WARNINGS = ("-Wall", "-Wextra", "-Werror")


def c_library(exported: Exported, build: Path) -> Path:
    """Compile all C files of an export as a library."""
    library = build / f"lib{exported.name}.so"
    sources = [f for f in exported.files if f.suffix == ".c" and f.stem != "example"]
    run(
        [*find_compiler("c").command, *kernel_flags("c"), *WARNINGS, "-fPIC", "-shared", *sources, "-lm", "-o", library]
    )
    return library


def call(scheduled: ScheduledTimeLoop, exported: Exported, library: Path, given: Any, times: int) -> dict[str, Any]:
    """Call an exported function through ctypes; arguments are in the order of its prototype."""
    code = ctypes.CDLL(str(library))
    signature = scheduled.signature
    out = {spec.name: np.full(spec.shape, np.nan) for spec in signature.outputs}
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (*given.values(), *out.values())]
    scalars: list[Any] = [ctypes.c_int64(times)]
    scalars += [ctypes.c_double(float(signature.defaults[n])) for n in signature.scalars if n != "times"]
    values = [
        np.array(signature.values_of(name, scheduled.update.by_step[name], times), dtype.numpy)
        for name, dtype in signature.by_step.items()
    ]
    scalars += [array.ctypes.data_as(ctypes.c_void_p) for array in values]
    size = code[f"{exported.name}_workspace_bytes"]
    size.restype = ctypes.c_size_t
    assert size() == exported.workspace_bytes
    raw = np.full(exported.workspace_bytes + 256, 0xCD, np.uint8)
    workspace = ctypes.c_void_p(raw.ctypes.data + -raw.ctypes.data % 256)
    stream = [] if scheduled.target.kind == "cpu" else [ctypes.c_void_p(0)]
    assert code[exported.name](*pointers, *scalars, workspace, *stream) == 0
    return out


@pytest.mark.parametrize("name", STEPS)
def test_c(name: str, tmp_path: Path) -> None:
    loop = STEPS[name]()
    given = arrays(loop)
    kept = {key: array.copy() for key, array in given.items()}
    scheduled = fused(loop, given, SECONDS, "cpu", strategy="beam")
    exported = scheduled.export(tmp_path / "exported")
    library = c_library(exported, tmp_path)
    for times in (0, 1, 2, 3, 4, 5, 9, 14):
        for key, array in repeated(loop, given, times).items():
            out = call(scheduled, exported, library, given, times)
            np.testing.assert_array_equal(out[key], array, err_msg=f"{key} after {times} steps")
    for key, array in given.items():
        np.testing.assert_array_equal(array, kept[key])


@pytest.mark.parametrize("name", ["diffusion", "leapfrog"])
def test_cuda(name: str, tmp_path: Path) -> None:
    loop = STEPS[name]()
    given = arrays(loop)
    scheduled = fused(loop, given, (1.0, 1.3))
    exported = scheduled.export(tmp_path / "exported")
    library = emulated_library(exported, tmp_path)
    for times in (0, 1, 3, 4):
        out = call(scheduled, exported, library, given, times)
        for key, array in repeated(loop, given, times).items():
            np.testing.assert_array_equal(out[key], array, err_msg=f"{key} after {times} steps")


def test_the_example_runs_the_declared_number_of_steps(tmp_path: Path) -> None:
    loop = leapfrog()
    given = arrays(loop)
    exported = fused(loop, given, SECONDS, "cpu").export(tmp_path / "exported", name="wave")
    assert exported.prototype.startswith("int wave(") and "int64_t times" in exported.prototype
    example = tmp_path / "example"
    sources = [f for f in exported.files if f.suffix == ".c"]
    run([*find_compiler("c").command, *kernel_flags("c"), *WARNINGS, *sources, "-lm", "-o", example])
    files = [tmp_path / f"{k}.bin" for k in range(4)]
    for array, file in zip(given.values(), files, strict=False):
        array.tofile(file)
    run([example, *files])
    for file, array in zip(files[2:], repeated(loop, given, loop.times).values(), strict=True):
        np.testing.assert_array_equal(np.fromfile(file).reshape(array.shape), array)


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    loop = leapfrog()
    given = arrays(loop)
    exported = fused(loop, given, (1.0,), "cpu").export(tmp_path / "exported")
    function = ctypes.CDLL(str(c_library(exported, tmp_path)))[exported.name]
    now, before = (a.ctypes.data_as(ctypes.c_void_p) for a in given.values())
    out = [np.zeros((13, 21)).ctypes.data_as(ctypes.c_void_p) for _ in range(2)]
    space = np.zeros(exported.workspace_bytes + 64, np.uint8)
    workspace = ctypes.c_void_p(space.ctypes.data + -space.ctypes.data % 64)
    none = ctypes.c_void_p(None)
    assert function(now, before, *out, ctypes.c_int64(-1), now, workspace) == 1
    assert function(now, before, *out, ctypes.c_int64(1), none, workspace) == 1
    assert function(now, before, *out, ctypes.c_int64(0), none, workspace) == 0
    assert function(now, before, out[0], now, ctypes.c_int64(0), none, workspace) == 1
