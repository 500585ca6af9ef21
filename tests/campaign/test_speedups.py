"""The picture of speedups over the baseline strategy."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from drawings import speedups


def timed(seconds: float) -> dict[str, Any]:
    return {"cold": {"seconds": seconds}}


TIMING = {
    "blur/sioutas/0": timed(8e-6),
    "blur/beam/0": timed(16e-6),
    "blur/beam/1": timed(2e-6),
    "blur/learned/0": timed(4e-6),
    "harris/sioutas/0": timed(30e-6),
    "harris/beam/0": timed(10e-6),
    "harris/beam/1": {"error": "CompileError: no"},
    "harris/learned/0": timed(5e-6),
    "hist/sioutas/0": timed(1e-6),
    "hist/beam/0": timed(1e-6),
    "ceilings": {"bytes_per_s": 4.2e12},
}
ANALYTICAL, BEST, LEARNED = (
    "analytical model, one-shot",
    "analytical model, best of five measured",
    "learned model, one-shot",
)


def test_speedups_and_their_means() -> None:
    rows = speedups.with_means(speedups.speedups(TIMING))
    assert list(rows) == ["harris", "blur", speedups.MEAN], "hist lacks a strategy; the largest gain comes first"
    assert rows["blur"] == pytest.approx({ANALYTICAL: 0.5, BEST: 4, LEARNED: 2})
    assert rows["harris"] == pytest.approx({ANALYTICAL: 3, BEST: 3, LEARNED: 6})
    assert rows[speedups.MEAN] == pytest.approx({ANALYTICAL: 1.5**0.5, BEST: 12**0.5, LEARNED: 12**0.5})


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "speedups.png"
    monkeypatch.setattr(sys, "argv", ["draw_speedups.py", str(tmp_path), str(picture)])
    (tmp_path / "results.json").write_text(json.dumps({"timing": {"hist/beam/0": timed(1e-6)}}))
    assert speedups.main() == 1
    assert "no app with times of sioutas and of a search" in capsys.readouterr().err
    assert not picture.exists()
    (tmp_path / "results.json").write_text(json.dumps({"timing": TIMING}))
    assert speedups.main() == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
