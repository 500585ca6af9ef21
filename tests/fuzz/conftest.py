"""Memory is initialised with garbage; unroll-and-jam and strip-mining apply even where they are slower."""

from __future__ import annotations

import pytest

from tests.fuzz.witnesses import garbage


@pytest.fixture(autouse=True)
def _dirty_workspaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.runtime.backends.cpu.aligned_empty", garbage)
    monkeypatch.setattr("autosched.runtime.backends.emulator.aligned_empty", garbage)


@pytest.fixture(autouse=True)
def _rows_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.schedule.cpu_policy.MIN_JAM_LOADS", 1)
    monkeypatch.setattr("autosched.schedule.cpu_policy.MAX_JAM_LOADS_LEFT", 1.0)


@pytest.fixture(autouse=True)
def _narrow_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.schedule.cpu_policy.STRIP_LANES", (4, 2))
    monkeypatch.setattr("autosched.schedule.cpu_policy.MIN_STRIP_REMAINDER", 2)
