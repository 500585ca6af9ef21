"""Every test of the backend has a cache of regions of its own; compiled libraries stay shared."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.torch import region_cache


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a test an empty cache of regions: what it patches is not passed over for an earlier result."""
    cache = region_cache.DiskCache("region", suffix=".json", root=tmp_path / "regions")
    monkeypatch.setattr(region_cache, "_REGIONS", cache)
