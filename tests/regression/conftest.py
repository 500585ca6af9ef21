"""Every regression test compiles into a cache of its own, and starts from memory full of garbage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.witnesses import garbage


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("autosched.runtime.cpu.aligned_empty", garbage)
    monkeypatch.setattr("autosched.runtime.emulated.aligned_empty", garbage)
