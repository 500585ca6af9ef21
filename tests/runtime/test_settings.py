"""The environment is read in one place, with its precedence and its errors."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from autosched.errors import CacheError, InputError
from autosched.settings import (
    ENVIRONMENT_VARIABLES,
    Settings,
    available_cpus,
    child_environment,
    openmp_cpus,
    openmp_threads_sleep,
    settings,
)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"AUTOSCHED_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, Path("/a")),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, Path("/x/autosched")),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, Path("/h/.cache/autosched")),
        ({"HOME": "/h"}, Path("/h/.cache/autosched")),
    ],
)
def test_cache_directory_precedence(environ: dict[str, str], expected: Path) -> None:
    assert settings(environ).cache_dir == expected


def test_no_home_directory_is_a_cache_error_only_when_the_cache_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", no_home)
    without_home = settings({})
    assert without_home.cache_dir is None
    with pytest.raises(CacheError, match="AUTOSCHED_CACHE_DIR"):
        without_home.require_cache_dir()


def test_own_compiler_variables_win_over_the_common_ones() -> None:
    common = {"CC": "gcc-12", "CXX": "g++-12"}
    assert settings(common).cc == "gcc-12"
    own = settings({**common, "AUTOSCHED_CC": "clang", "AUTOSCHED_CXX": "clang++"})
    assert (own.cc, own.cxx) == ("clang", "clang++")
    assert settings({"CC": ""}).cc is None


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_a_meaningless_number_of_jobs_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="AUTOSCHED_COMPILE_JOBS"):
        settings({"AUTOSCHED_COMPILE_JOBS": text})


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("1", 1), (" 1,4", 1), ("2", 2), ("9999", None), ("", None), ("0", None), ("-1", None), ("many", None)],
)
def test_generated_c_runs_on_as_many_cpus_as_openmp_takes(text: str, cpus: int | None) -> None:
    least = available_cpus() if cpus is None else min(cpus, available_cpus())
    assert openmp_cpus({"OMP_NUM_THREADS": text}) == least


def test_switches_and_numbers() -> None:
    assert settings({"AUTOSCHED_COMPILE_JOBS": "3"}).compile_jobs == 3
    assert settings({}).compile_jobs >= 1
    assert settings({}).cuda_graphs
    assert not settings({"AUTOSCHED_CUDA_GRAPHS": "off"}).cuda_graphs
    with pytest.raises(InputError, match="AUTOSCHED_CUDA_GRAPHS"):
        settings({"AUTOSCHED_CUDA_GRAPHS": "maybe"})


def test_every_variable_of_the_table_is_read() -> None:
    values = {
        "AUTOSCHED_CACHE_DIR": "/elsewhere",
        "AUTOSCHED_CC": "my-cc",
        "AUTOSCHED_CXX": "my-c++",
        "AUTOSCHED_COMPILE_JOBS": "17",
        "AUTOSCHED_CUDA_GRAPHS": "0",
    }
    assert {*values, "OMP_NUM_THREADS"} == set(ENVIRONMENT_VARIABLES)
    default, changed = settings({"HOME": "/h"}), settings({"HOME": "/h", **values})
    for field in dataclasses.fields(Settings):
        assert getattr(default, field.name) != getattr(changed, field.name), field.name


def test_child_environment_adds_to_the_own_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMETHING", "kept")
    child = child_environment(PYTHONPATH="/p")
    assert child["SOMETHING"] == "kept"
    assert child["PYTHONPATH"] == "/p"


def test_openmp_threads_sleep_leaves_the_environment_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    with openmp_threads_sleep():
        assert os.environ["OMP_WAIT_POLICY"] == "passive"
    assert "OMP_WAIT_POLICY" not in os.environ
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    with openmp_threads_sleep():
        assert os.environ["OMP_WAIT_POLICY"] == "active"
    assert os.environ["OMP_WAIT_POLICY"] == "active"
