"""The command: help without installed packages, refusals, termination by a signal."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from campaign.paths import ROOT

SCRIPT = ROOT / "scripts" / "gpu_campaign.py"


def command(*arguments: object) -> list[str]:
    """Return the command line; only Python's own packages are importable."""
    return [sys.executable, "-S", "-E", str(SCRIPT), *map(str, arguments)]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=False)


def test_help_needs_no_package() -> None:
    done = run("--help")
    assert done.returncode == 0
    steps = (
        "tests, search, compile, kernels, suite, sanitizer, timing, collect, tune, torch, peers, profile, train, report"
    )
    assert steps in " ".join(done.stdout.split())


def test_missing_packages_are_reported_for_skipped_steps(tmp_path: Path) -> None:
    done = run("--out", tmp_path / "out", "--target", "simulated", "--seconds", 20)
    assert done.returncode == 0, done.stderr
    assert "search: skipped: Python modules are missing: networkx, numpy" in done.stdout
    assert "train: skipped: Python modules are missing: networkx, numpy, pyarrow, safetensors, torch" in done.stdout
    assert "Python modules are missing" in (tmp_path / "out" / "summary.md").read_text()


def test_unknown_steps_are_refused(tmp_path: Path) -> None:
    for option in ("--steps", "--again"):
        done = run("--out", tmp_path, option, "nonsense")
        assert done.returncode == 2
        assert done.stderr.startswith("error: there is no step 'nonsense'")


@pytest.mark.parametrize(
    ("text", "message"),
    [('{"version": ', "is damaged"), ('{"version": 0}', "was written by another version of this script")],
)
def test_an_unusable_state_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "state.json").write_text(text)
    done = run("--out", tmp_path, "--target", "simulated", "--steps", "search")
    assert done.returncode == 2
    assert f"{tmp_path / 'state.json'} {message}" in done.stderr
    assert (tmp_path / "state.json").read_text() == text


def test_the_report_needs_only_the_files(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps({"tests": {"a::b": {"outcome": "passed"}}}))
    done = run("--out", tmp_path, "--steps", "report")
    assert done.returncode == 0
    assert "1 passed, 0 failed." in (tmp_path / "summary.md").read_text()


def test_a_signal_ends_the_step_and_writes_the_report(tmp_path: Path) -> None:
    arguments = ["--out", tmp_path / "out", "--work", tmp_path / "work", "--steps", "search", "--target", "emulator"]
    log = tmp_path / "work" / "logs" / "search.txt"
    with subprocess.Popen([sys.executable, *command(*arguments)[3:]], stdout=subprocess.PIPE, text=True) as child:
        until = time.monotonic() + 60
        while not log.exists() and time.monotonic() < until:
            time.sleep(0.02)
        child.send_signal(signal.SIGTERM)
        printed = child.communicate(timeout=30)[0]
    assert child.returncode == 128 + signal.SIGTERM
    assert "search: up to" in printed
    assert (tmp_path / "out" / "summary.md").exists()
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in running
