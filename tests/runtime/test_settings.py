"""The environment is read in one place, with its precedence and its errors."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from autosched.errors import CacheError, InputError
from autosched.settings import (
    ENVIRONMENT_VARIABLES,
    NamedCompiler,
    Settings,
    available_cpus,
    child_environment,
    openmp_cpus,
    openmp_environment,
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
    assert settings(common).cc == NamedCompiler("CC", ("gcc-12",))
    own = settings({**common, "AUTOSCHED_CC": "ccache clang", "AUTOSCHED_CXX": "clang++"})
    assert own.cc == NamedCompiler("AUTOSCHED_CC", ("ccache", "clang"))
    assert own.cxx == NamedCompiler("AUTOSCHED_CXX", ("clang++",))
    assert settings({"CC": ""}).cc is None


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5", "1025", "9" * 5000, "٣", " ", "nan", "inf"])
def test_a_meaningless_number_of_jobs_is_refused(text: str) -> None:
    for variable in ("AUTOSCHED_COMPILE_JOBS", "AUTOSCHED_WORKERS"):
        with pytest.raises(InputError, match=variable):
            settings({variable: text})


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("1", 1),
        (" 1,4", 1),
        ("2", 2),
        ("9999", None),
        ("9" * 5000, None),
        ("0002", 2),
        ("", None),
        ("0", None),
        ("-1", None),
        ("many", None),
    ],
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
        "AUTOSCHED_DEBUG": "1",
        "AUTOSCHED_HOST_TIMING": "0",
        "AUTOSCHED_WORKERS": "17",
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


@pytest.mark.parametrize("variable", ["AUTOSCHED_CC", "AUTOSCHED_CXX", "CC", "CXX"])
@pytest.mark.parametrize("text", ['gcc "x', "gcc 'x", "gcc \\", "  ", "''", '"' * 5001])
def test_a_compiler_that_is_no_command_line_is_refused(variable: str, text: str) -> None:
    with pytest.raises(InputError, match=f"^{variable} is ") as caught:
        settings({variable: text})
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


def test_a_cache_directory_of_an_unknown_user_is_refused() -> None:
    with pytest.raises(InputError, match="AUTOSCHED_CACHE_DIR is '~nosuchuser/x', which names no directory"):
        settings({"AUTOSCHED_CACHE_DIR": "~nosuchuser/x"})


@pytest.mark.parametrize(
    ("variable", "text", "read"),
    [
        ("OMP_NUM_THREADS", "100000", str(available_cpus())),
        ("OMP_NUM_THREADS", f"100000, {'9' * 5000},1", f"{available_cpus()},{available_cpus()},1"),
        ("OMP_NUM_THREADS", "1", "1"),
        ("OMP_NUM_THREADS", "many", "many"),
        ("OMP_STACKSIZE", "100G", "256M"),
        ("OMP_STACKSIZE", "256m", "256m"),
        ("OMP_STACKSIZE", " 300000 ", "256M"),
        ("OMP_STACKSIZE", "large", "large"),
        ("GOMP_STACKSIZE", "100000000", "256M"),
    ],
)
def test_openmp_takes_no_more_than_there_is(
    variable: str, text: str, read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, text)
    with openmp_environment():
        assert os.environ[variable] == read
    assert os.environ[variable] == text


def test_openmp_environment_leaves_the_environment_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    with openmp_environment():
        assert os.environ["OMP_WAIT_POLICY"] == "passive"
    assert "OMP_WAIT_POLICY" not in os.environ
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    with openmp_environment():
        assert os.environ["OMP_WAIT_POLICY"] == "active"
    assert os.environ["OMP_WAIT_POLICY"] == "active"
