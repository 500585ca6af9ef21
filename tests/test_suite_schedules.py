"""Every suite app under random legal schedules: C backend, emulator and interpreter agree; NVRTC compiles it all."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from autosched.apps import get_app, load_apps
from autosched.runtime.nvrtc import have_nvrtc

MANY_STAGES = 12


def script(name: str) -> ModuleType:
    """Return a script of this repository as a module."""
    path = Path(__file__).parents[1] / "scripts" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", load_apps())
def test_all_witnesses_agree_and_nvrtc_compiles(name: str) -> None:
    check_suite = script("check_suite")

    schedules = 1 if len(get_app(name).build().funcs) > MANY_STAGES else 2  # `make check-suite` tries many more
    tally = check_suite.check_app(name, range(schedules), nvrtc=have_nvrtc(), chain_stages=3)
    assert tally.failures == []
    assert tally.counts["runs through CpuExecutable"] == schedules
    assert tally.counts["runs through EmulatedExecutable"] == schedules
    assert tally.counts["kernels compiled by NVRTC"] > 0 or not have_nvrtc()
