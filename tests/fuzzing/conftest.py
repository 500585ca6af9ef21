"""Lets the package beside `scripts/fuzz_programs.py` be imported, here and in processes that are started from here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

SCRIPTS = str(Path(__file__).parents[2] / "scripts")
if SCRIPTS not in sys.path:
    sys.path.append(SCRIPTS)  # last, so that no script takes the name of a library


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", SCRIPTS)
