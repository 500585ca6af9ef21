"""Every suite app under random legal schedules: C backend, emulator and interpreter agree; NVRTC compiles it all."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from autosched.apps import get_app, load_apps

SCHEDULES = 2


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

    tally = check_suite.check_app(get_app(name), SCHEDULES, seed=7, emulate=2)
    check_suite.compile_all(tally)
    assert tally.failures == []
    assert tally.counts["runs through C"] == SCHEDULES
    assert tally.counts["runs through emulator"] == SCHEDULES // 2
    assert tally.counts["kernels compiled by NVRTC"] > 0
