"""Fuzzing leaves nothing in the user's cache, and its memory is never clean by chance."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.witnesses import garbage


@pytest.fixture(autouse=True)
def _private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def _dirty_workspaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.runtime.cpu.aligned_empty", garbage)
    monkeypatch.setattr("autosched.runtime.emulated.aligned_empty", garbage)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long runs are for ``-m fuzz`` alone."""
    if "fuzz" in (config.option.markexpr or ""):
        return
    skip = pytest.mark.skip(reason="a long run: make fuzz")
    for item in items:
        if item.get_closest_marker("fuzz"):
            item.add_marker(skip)
