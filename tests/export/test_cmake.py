"""Exports build through CMake, install, and are found by other projects."""

from __future__ import annotations

from pathlib import Path

import pytest

import autosched
from autosched.apps import get_app
from tests.compilers import installed_compilers
from tests.export.building import assert_same_bits, expected, program, results, run

CONSUMER = """
cmake_minimum_required(VERSION 3.21)
project(consumer LANGUAGES CXX)
find_package(harris REQUIRED)
add_executable(consumer main.cpp)
target_link_libraries(consumer PRIVATE harris::harris)
"""
MAIN = """
#include <harris.h>
int main() { return harris(nullptr, nullptr, nullptr) == HARRIS_INVALID_ARGUMENT ? 0 : 1; }
"""


@pytest.mark.parametrize("compiler", installed_compilers())
def test_c(compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", compiler)
    monkeypatch.setenv("AUTOSCHED_CC", compiler)
    cmake, app = program("cmake"), get_app("harris")
    scheduled = autosched.schedule(app.build(), app.shapes(app.small_sizes), "cpu", strategy="roots")
    scheduled.export(tmp_path / "exported")
    run([cmake, "-S", "exported", "-B", "build", f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'installed'}"], tmp_path)
    run([cmake, "--build", "build"], tmp_path)
    inputs = app.make_inputs(app.small_sizes)
    found = results(tmp_path / "build" / "harris_example", scheduled, inputs)
    assert_same_bits(found, expected(scheduled, inputs))
    run([cmake, "--install", "build"], tmp_path)
    (tmp_path / "consumer").mkdir()
    (tmp_path / "consumer" / "CMakeLists.txt").write_text(CONSUMER)
    (tmp_path / "consumer" / "main.cpp").write_text(MAIN)
    run([cmake, "-S", "consumer", "-B", "other", f"-DCMAKE_PREFIX_PATH={tmp_path / 'installed'}"], tmp_path)
    run([cmake, "--build", "other"], tmp_path)
    run([tmp_path / "other" / "consumer"])


@pytest.mark.slow
def test_cuda(tmp_path: Path) -> None:
    cmake, app = program("cmake"), get_app("harris")
    program("nvcc")
    scheduled = autosched.schedule(app.build(), app.shapes(app.small_sizes), "a100", strategy="roots")
    scheduled.export(tmp_path / "exported")
    run([cmake, "-S", "exported", "-B", "build", f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'installed'}"], tmp_path)
    assert "compute_80" in run([cmake, "--build", "build", "--verbose"], tmp_path)
    assert (tmp_path / "build" / "harris_example").exists()
    run([cmake, "--install", "build"], tmp_path)
    assert (tmp_path / "installed" / "include" / "harris.h").exists()
