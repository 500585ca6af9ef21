"""Every suite app under random legal schedules: C backend, emulator and interpreter agree; NVRTC compiles it all."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from autosched.apps import load_apps
from autosched.runtime.compile.nvrtc import have_nvrtc
from tests.few_stages import FEW_STAGES

SCHEDULES = 1
"""Of each app; `make check-suite` tries many more."""
LONG = ("lens_blur", "diffterm", "miniflux", "addsgd6", "rhs4center", "rhs4sgcurv")
"""Apps whose kernels take compilers longest."""


def script(name: str) -> ModuleType:
    """Return a script of this repository as a module."""
    path = Path(__file__).parents[1] / "scripts" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.fuzz] * (n in LONG)) for n in load_apps()])
def test_all_witnesses_agree_and_nvrtc_compiles(name: str) -> None:
    check_suite = script("check_suite")

    tally = check_suite.check_app(name, range(SCHEDULES), nvrtc=have_nvrtc(), settings=FEW_STAGES.get(name, {}))
    assert tally.failures == []
    assert tally.counts["runs through CpuExecutable"] == SCHEDULES
    assert tally.counts["runs through EmulatedExecutable"] == SCHEDULES
    assert tally.counts["kernels compiled by NVRTC"] > 0 or not have_nvrtc()
