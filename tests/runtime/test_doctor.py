"""The report on this machine: honest, complete, and never raising."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autosched.runtime.doctor import Check, diagnose

NAMES = [
    "python",
    "numpy",
    "torch",
    "C compiler",
    "C++ compiler",
    "OpenMP",
    "NVRTC",
    "CuPy",
    "CUDA device",
    "cache directory",
]


def _by_name() -> dict[str, Check]:
    return {check.name: check for check in diagnose()}


@pytest.fixture
def broken_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without compilers and optional packages, whose cache directory is a file."""
    for module in ("torch", "cuda.core", "cupy", "cupy.cuda"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setenv("AUTOSCHED_CC", "/no/such/cc")
    monkeypatch.setenv("AUTOSCHED_CXX", "/no/such/c++")
    occupied = tmp_path / "occupied"
    occupied.write_text("")
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(occupied))


def test_what_the_library_always_needs_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "new" / "cache"))
    checks = _by_name()
    assert list(checks) == NAMES
    for name in ("python", "numpy", "torch", "C compiler", "OpenMP", "NVRTC", "cache directory"):
        assert checks[name].ok, checks[name]
    assert checks["cache directory"].detail == str(tmp_path / "new" / "cache")
    assert int(checks["OpenMP"].detail.split()[0]) >= 1


@pytest.mark.usefixtures("broken_machine")
def test_everything_missing_is_reported_with_a_remedy() -> None:
    checks = _by_name()
    failed = {name: check for name, check in checks.items() if not check.ok}
    assert set(failed) == set(NAMES) - {"python", "numpy"}
    for check in failed.values():
        assert check.detail, check
        assert "\n" not in check.detail
        assert check.remedy.endswith("."), check
    assert "autosched[nvrtc]" in checks["NVRTC"].remedy
    assert "autosched[cuda13]" in checks["CuPy"].remedy
    assert "/no/such/cc" in checks["C compiler"].detail
    assert "AUTOSCHED_CACHE_DIR" in checks["cache directory"].remedy


def test_what_works_needs_no_remedy() -> None:
    assert all(bool(check.remedy) != check.ok for check in diagnose())


def test_a_compiler_that_ignores_openmp_is_found_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\nexec cc "$@" -fno-openmp\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("AUTOSCHED_CC", str(compiler))
    checks = _by_name()
    assert checks["C compiler"].ok
    assert not checks["OpenMP"].ok
    assert "OpenMP" in checks["OpenMP"].remedy


def test_an_unreadable_setting_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_COMPILE_JOBS", "many")
    check = _by_name()["C compiler"]
    assert not check.ok
    assert "AUTOSCHED_COMPILE_JOBS" in check.detail
