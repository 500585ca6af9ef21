"""Import path of the package beside `scripts/gpu_campaign.py` in this process and its children."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

SCRIPTS = str(Path(__file__).parents[2] / "scripts")
if SCRIPTS not in sys.path:
    sys.path.append(SCRIPTS)  # last, so that no script shadows a library


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", SCRIPTS)
