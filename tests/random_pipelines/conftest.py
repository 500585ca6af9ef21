"""Compiled kernels of random pipelines go nowhere; long runs are for ``-m fuzz`` alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from autosched.random_pipelines import RandomPipeline, random_pipeline

SEEDS = 300


@pytest.fixture(autouse=True)
def _private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def many() -> Sequence[RandomPipeline]:
    """The first pipelines under the standard settings."""
    return [random_pipeline(seed) for seed in range(SEEDS)]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "fuzz" in (config.option.markexpr or ""):
        return
    skip = pytest.mark.skip(reason="a long run: make fuzz")
    for item in items:
        if item.get_closest_marker("fuzz"):
            item.add_marker(skip)
