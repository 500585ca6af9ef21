"""Every regression test starts from memory full of garbage."""

from __future__ import annotations

import pytest

from tests.fuzz.witnesses import garbage


@pytest.fixture(autouse=True)
def _dirty_workspaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.runtime.backends.cpu.aligned_empty", garbage)
    monkeypatch.setattr("autosched.runtime.backends.emulator.aligned_empty", garbage)
