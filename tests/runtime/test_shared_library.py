"""Errors for libraries that cannot be loaded: the reason, and the variable to set."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from autosched.errors import CacheError, CompileError
from autosched.runtime.compile import shared_library
from autosched.runtime.compile.host_compiler import compile_shared_library
from autosched.runtime.compile.shared_library import load_function, load_library


def test_a_function_is_loaded_and_called() -> None:
    path = compile_shared_library("void twice(int *a, int *b) { *b = 2 * *a; }")
    a, b = ctypes.c_int(21), ctypes.c_int()
    load_function(path, "twice", parameters=2)(ctypes.addressof(a), ctypes.addressof(b))
    assert b.value == 42


def test_no_library(tmp_path: Path) -> None:
    path = tmp_path / "kernel.so"
    path.write_text("no library")
    with pytest.raises(CompileError, match=r"kernel\.so cannot be loaded \(.*\): set AUTOSCHED_CC"):
        load_library(path)


def test_no_function() -> None:
    path = compile_shared_library("int other;")
    with pytest.raises(CompileError, match="has no function kernel: set AUTOSCHED_CC"):
        load_function(path, "kernel", parameters=1)


def test_a_cache_that_may_not_run_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on file systems that are mounted noexec, where loading fails."""
    path = tmp_path / "kernel.so"
    path.write_text("no library")
    monkeypatch.setattr(shared_library.os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_NOEXEC))
    with pytest.raises(CacheError, match="mounted noexec: set AUTOSCHED_CACHE_DIR"):
        load_library(path)
