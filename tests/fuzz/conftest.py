"""Memory is never clean by chance, and rows of lanes are taken together whether that is faster or not."""

from __future__ import annotations

import pytest

from tests.fuzz.witnesses import garbage


@pytest.fixture(autouse=True)
def _dirty_workspaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.runtime.cpu.aligned_empty", garbage)
    monkeypatch.setattr("autosched.runtime.emulated.aligned_empty", garbage)


@pytest.fixture(autouse=True)
def _rows_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.codegen.rows.LEAST_LOADS", 1)
    monkeypatch.setattr("autosched.codegen.rows.MOST_LOADS_LEFT", 1.0)
