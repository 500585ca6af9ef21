"""The step that runs tests: individual outcomes, and no repetition of passed tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaign.paths import ROOT
from campaign.tests import gpu_tests, outcomes

from tests.campaign.tiny_campaign import options, run

PROGRAM = """
import os
def test_good():
    with open({log!r}, "a") as file:
        file.write("x")
def test_repaired_later():
    assert os.path.exists({repaired!r}), "not yet"
"""


def test_failed_tests_are_run_again(tmp_path: Path) -> None:
    log, repaired, file = tmp_path / "log", tmp_path / "repaired", tmp_path / "test_some.py"
    file.write_text(PROGRAM.format(log=str(log), repaired=str(repaired)))
    chosen = options(tmp_path, target="cpu", tests=(str(file),), processes=1)
    outcome, step_context = run("tests", chosen)
    assert outcome.finished
    assert outcome.failures == 1
    found = {name.rpartition("::")[2]: part for name, part in step_context.parts.items() if name != "run"}
    assert found["test_good"]["outcome"] == "passed"
    assert "not yet" in found["test_repaired_later"]["message"]
    repaired.touch()
    outcome, _ = run("tests", chosen)
    assert outcome.failures == 0
    assert outcome.message == "2 passed"
    assert log.read_text() == "x"


def test_a_collection_error_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("campaign.tests.has_module", lambda _: False)  # simulates a missing pytest-xdist
    file = tmp_path / "test_broken.py"
    file.write_text("import no_such_module\n")
    chosen = options(tmp_path, target="cpu", tests=(str(file),), processes=1)
    outcome, step_context = run("tests", chosen)
    assert outcome.failures > 0
    assert any("no_such_module" in part.get("message", "") for part in step_context.parts.values())
    file.write_text("def test_it(): pass\n")
    assert run("tests", chosen)[0].failures == 0


def test_files_with_gpu_tests_are_found() -> None:
    found = gpu_tests(ROOT)
    assert "tests/gpu/test_suite_on_gpu.py" in found
    assert "tests/test_demo.py" not in found


def test_a_truncated_line_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text('{"test": "a", "outcome": "passed"}\n{"test": "b", "out')
    assert list(outcomes(file)) == [("a", {"outcome": "passed"})]
    assert list(outcomes(tmp_path / "none")) == []
