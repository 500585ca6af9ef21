"""The script that measures memory: figures of one app, and the message on one that fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from autosched.runtime.compile.host_compiler import have_compiler

SCRIPT = Path(__file__).parents[1] / "scripts" / "peak_memory.py"
pytestmark = pytest.mark.skipif(not have_compiler("c"), reason="needs a C compiler")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)


def test_figures(tmp_path: Path) -> None:
    done = run("--apps", "harris,blur", "--size", "H=800", "--size", "W=1000", "--json", str(tmp_path / "figures.json"))
    assert (done.returncode, done.stderr) == (0, "")
    titles, harris, blur, most = done.stdout.splitlines()
    assert [line.split()[0] for line in (titles, harris, blur)] == ["app", "harris", "blur"]
    assert "needs most: " in most
    found = json.loads((tmp_path / "figures.json").read_text())["harris"]
    memory = found["bytes"]
    assert memory["arrays"] == 4 * (3 * 800 * 1000 + 794 * 994)
    assert 0 < memory["workspace"] < 12 * 800 * 1000 * 4
    assert memory["arrays"] < memory["run"] < memory["arrays"] + memory["workspace"] + 200e6
    assert found["sizes"] == {"W": 1000, "H": 800} and found["kernels"] > 1
    assert all(seconds > 0 for seconds in found["seconds"].values())


def test_failure_of_one_app() -> None:
    done = run("--apps", "sgemm,blur", "--size", "H=20")
    assert done.returncode == 1
    assert "sgemm                    FAILED: exit code 1: " in done.stdout
    assert "blur needs most: " in done.stdout


def test_unknown_app() -> None:
    done = run("--apps", "harri")
    assert done.returncode != 0 and "did you mean 'harris'?" in done.stderr and done.stdout == ""
