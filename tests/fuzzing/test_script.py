"""Standalone scripts of failing programs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fuzzing.check import WRONG, Failure
from fuzzing.program import build
from fuzzing.script import script
from fuzzing.trials import SAMPLED, Trial, find_schedule

from autosched.analysis.bind import bind
from autosched.schedule.io.serialise import to_json
from tests.fuzzing.small import TEXT, small


def run(text: str, directory: Path) -> subprocess.CompletedProcess[str]:
    path = directory / "program.py"
    path.write_text(text)
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, cwd=directory, check=False)


@pytest.mark.parametrize(
    "trial", [Trial("cpu", SAMPLED, 3), Trial("h200", "beam", 0), Trial("cpu", "drawn", 0)], ids=str
)
def test_a_script_checks_its_program(trial: Trial, tmp_path: Path) -> None:
    failure = Failure(WRONG, 'f1: "all" of it', trial=trial)
    finished = run(script(small(), failure, "far reads"), tmp_path)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


def test_a_script_has_the_schedule_and_exits_with_1_on_a_difference(tmp_path: Path) -> None:
    built = build(small())
    bound = bind(built.pipeline, built.shapes, built.params)
    trial = Trial("cpu", SAMPLED, 3)
    failure = Failure(WRONG, "f1: all of it", "", trial, to_json(bound, find_schedule(built, bound, trial)))
    text = script(small(), failure, "far reads")
    assert '"kernels"' in text
    wrong = text.replace("wrong = 0\n", 'expected["f1"] = expected["f1"] + 1\nwrong = 0\n')
    finished = run(wrong, tmp_path)
    assert finished.returncode == 1, finished.stderr
    assert "WRONG f1" in finished.stdout


def test_a_script_without_a_schedule_shows_the_exception(tmp_path: Path) -> None:
    program = replace(small(), text=TEXT.replace("(17,)", "(3,)"))
    finished = run(script(program, Failure("crashed", "BoundsError"), "far reads"), tmp_path)
    assert finished.returncode == 1
    assert "BoundsError" in finished.stderr
