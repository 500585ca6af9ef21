"""The hydra entry point for tuning."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def tune(*overrides: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "autotune.py"), "app=blur", "measured_on=simulated", *overrides]
    return subprocess.run(command, capture_output=True, text=True)


def test_tunes_with_settings_of_the_configuration(tmp_path: Path) -> None:
    small = (
        "+sizes.H=34",
        "+sizes.W=66",
        "iterations=1",
        "samples=3",
        "searches=3",
        "search=greedy",
        "training.passes=1",
    )
    done = tune(*small, f"database={tmp_path / 't.sqlite'}")
    assert done.returncode == 0, done.stderr
    assert "simulated:H200" in done.stdout
    assert (tmp_path / "t.weights.safetensors").exists()


def test_takes_a_guide(tmp_path: Path) -> None:
    (tmp_path / "guide.yaml").write_text("every: {threads: {x: 32, y: 4}}")
    small = ("+sizes.H=34", "+sizes.W=66", "iterations=1", "samples=2", "searches=2", "search=greedy")
    database = f"database={tmp_path / 't.sqlite'}"
    done = tune(*small, "training.passes=1", database, f"guide={tmp_path / 'guide.yaml'}")
    assert done.returncode == 0, done.stderr
    schedule = json.loads((tmp_path / "t.schedule.json").read_text())
    loops = [[p for p in r["loops"] if "thread" in p.values()] for k in schedule["kernels"] for r in k["roots"]]
    assert loops and all(sorted(p["extent"] for p in t) == [4, 32] for t in loops), loops
    done = tune(*small, database, "guide={every: {threads: {q: 32}}}")
    assert done.returncode == 1 and "every names the dimension 'q'" in done.stderr


def test_errors_are_one_line(tmp_path: Path) -> None:
    done = tune("target=h2000", f"database={tmp_path / 't.sqlite'}")
    assert done.returncode == 1
    assert done.stderr.strip().startswith("error: unknown target 'h2000'")
