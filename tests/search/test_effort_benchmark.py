"""The benchmark of efforts: one app, both targets."""

from __future__ import annotations

import argparse

import pytest
from benchmarks import search

from autosched.search.tune.effort_levels import EFFORT_NAMES


def test_a_row_for_every_effort_and_target(capsys: pytest.CaptureFixture[str]) -> None:
    rows = search.efforts(argparse.Namespace(apps="blur"))
    assert [(r["target"], r["effort"]) for r in rows] == [(t, e) for t in search.TARGETS for e in EFFORT_NAMES]
    fast, default, thorough = (r["ours"]["predicted_us"] for r in rows[:3])
    assert fast >= default >= thorough > 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(rows)
    assert lines[2].split() == [
        "blur", "h200", "default", *(lines[2].split()[3:5]), "1.00", f"{default:.1f}", "1.00",
    ]  # fmt: skip
