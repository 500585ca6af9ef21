"""Every suite app under random legal schedules: C backend, emulator and interpreter agree; NVRTC compiles it all."""

from __future__ import annotations

import pytest
from checks.suite import check_app

from autosched.apps import load_apps
from autosched.runtime.compile.nvrtc import have_nvrtc
from tests.stage_limits import FEW_STAGES

SCHEDULES = 1
"""Of each app; `make check-suite` tries many more."""
LONG = ("lens_blur", "diffterm", "miniflux", "addsgd6", "rhs4center", "rhs4sgcurv")
"""Apps whose kernels take compilers longest."""


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.fuzz] * (n in LONG)) for n in load_apps()])
def test_all_witnesses_agree_and_nvrtc_compiles(name: str) -> None:
    tally = check_app(name, range(SCHEDULES), nvrtc=have_nvrtc(), settings=FEW_STAGES.get(name, {}))
    assert tally.failures == []
    assert tally.counts["runs through CpuExecutable"] == SCHEDULES
    assert tally.counts["runs through EmulatedExecutable"] == SCHEDULES
    assert tally.counts["kernels compiled by NVRTC"] > 0 or not have_nvrtc()
