"""Memory is never clean by chance."""

from __future__ import annotations

import pytest

from tests.fuzz.witnesses import garbage


@pytest.fixture(autouse=True)
def _dirty_workspaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.runtime.cpu.aligned_empty", garbage)
    monkeypatch.setattr("autosched.runtime.emulated.aligned_empty", garbage)
