"""Schedules for a GPU without a CUDA compiler: spills are not checked, with one warning."""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import autosched
from autosched.apps.registry import get_app
from autosched.errors import CompileError
from autosched.runtime.compile import nvrtc
from autosched.scheduled_pipeline import ScheduledPipeline

pytestmark = pytest.mark.skipif(not nvrtc.have_nvrtc(), reason="NVRTC is not installed, of which parts are taken away")

APP = get_app("blur")
SHAPES = APP.shapes(APP.small_sizes)


def find(**options: object) -> ScheduledPipeline:
    return autosched.schedule(APP.build(), SHAPES, "h200", samples=3, **options)  # type: ignore[arg-type]


def forget_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear all caches of compiler properties, now and after the test."""
    for cached in (nvrtc.nvrtc_version, nvrtc.supported_archs, nvrtc._library_size, nvrtc._compile_nothing):
        monkeypatch.setattr(nvrtc, cached.__name__, type(cached.__wrapped__)(*_parts(cached.__wrapped__)))


def _parts(function: types.FunctionType) -> tuple[object, ...]:
    return function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__


def hide(module: str) -> Callable[[pytest.MonkeyPatch], None]:
    def change(monkeypatch: pytest.MonkeyPatch) -> None:
        for loaded in [name for name in sys.modules if name == module or name.startswith(f"{module}.")]:
            monkeypatch.delitem(sys.modules, loaded)
        monkeypatch.setitem(sys.modules, module, None)

    return change


def older_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release of cuda.core without programs."""
    monkeypatch.setitem(sys.modules, "cuda.core", types.ModuleType("cuda.core"))


def core_for_other_bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    class Program:
        def __init__(self, *arguments: object) -> None:
            raise RuntimeError("cuda.bindings 12 or 13 required, not 11")

    monkeypatch.setattr(sys.modules["cuda.core"], "Program", Program)


def lost_library(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings import nvrtc as bindings
    from cuda.pathfinder import DynamicLibNotFoundError

    def no_library() -> None:
        raise DynamicLibNotFoundError("libnvrtc.so.13")

    monkeypatch.setattr(bindings, "nvrtcVersion", no_library)


def old_library(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings import nvrtc as bindings

    def no_function() -> None:
        raise RuntimeError("Function nvrtcGetSupportedArchs not found")

    monkeypatch.setattr(bindings, "nvrtcGetSupportedArchs", no_function)


def library_without_this_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "supported_archs", lambda: (50, 60))


PARTS = {
    "no cuda.core": hide("cuda.core"),
    "no bindings": hide("cuda.bindings"),
    "no cuda": hide("cuda"),
    "older cuda.core": older_core,
    "cuda.core for other bindings": core_for_other_bindings,
    "lost library": lost_library,
    "old library": old_library,
    "library without this architecture": library_without_this_architecture,
}


@pytest.fixture(params=PARTS)
def unusable(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """An installation with unusable parts of the compiler."""
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))
    nvrtc.load_nvrtc()
    forget_compiler(monkeypatch)
    PARTS[request.param](monkeypatch)


@pytest.mark.usefixtures("unusable")
def test_scheduling_needs_no_compiler(tmp_path: Path) -> None:
    assert not nvrtc.have_nvrtc()
    with pytest.warns(RuntimeWarning, match=r"registers are not checked.*(autosched\[nvrtc\]|cuda12)") as caught:
        found = find()
    assert len(caught) == 1
    assert "\n" not in str(caught[0].message)
    assert Path(caught[0].filename) == Path(__file__)
    assert "registers are not checked" in found.provenance.note if found.provenance else False
    assert "__global__" in found.source("cuda")
    assert "kernel 0" in found.text()
    found.report(tmp_path / "blur.html")
    assert "Registers and spills are not known" in (tmp_path / "blur.html").read_text()
    assert found.export(tmp_path / "exported").directory.is_dir()
    with pytest.raises(CompileError):
        found.compile("cuda")


def test_an_unchecked_schedule_is_found_again_until_there_is_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path))
    with monkeypatch.context() as without:
        forget_compiler(without)
        hide("cuda.core")(without)
        with pytest.warns(RuntimeWarning, match="registers are not checked"):
            first = find()
        with pytest.warns(RuntimeWarning, match="registers are not checked"):
            again = find()
        assert again.provenance is not None
        assert again.provenance.reused
        assert again.schedule == first.schedule
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checked = find()
    assert checked.provenance is not None
    assert not checked.provenance.reused
    assert "registers" not in checked.provenance.note
