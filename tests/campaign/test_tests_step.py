"""The step that runs tests: their outcomes one by one, those that passed not again."""

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
def test_mended_later():
    assert os.path.exists({mended!r}), "not yet"
"""


def test_those_that_failed_are_run_again(tmp_path: Path) -> None:
    log, mended, file = tmp_path / "log", tmp_path / "mended", tmp_path / "test_some.py"
    file.write_text(PROGRAM.format(log=str(log), mended=str(mended)))
    chosen = options(tmp_path, target="cpu", tests=(str(file),), processes=1)
    outcome, around = run("tests", chosen)
    assert outcome.finished
    assert outcome.failures == 1
    found = {name.rpartition("::")[2]: part for name, part in around.parts.items() if name != "run"}
    assert found["test_good"]["outcome"] == "passed"
    assert "not yet" in found["test_mended_later"]["message"]
    mended.touch()
    outcome, _ = run("tests", chosen)
    assert outcome.failures == 0
    assert outcome.message == "2 passed"
    assert log.read_text() == "x"


def test_a_file_that_cannot_be_read_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("campaign.tests.has_module", lambda _: False)  # as without pytest-xdist
    file = tmp_path / "test_broken.py"
    file.write_text("import no_such_module\n")
    chosen = options(tmp_path, target="cpu", tests=(str(file),), processes=1)
    outcome, around = run("tests", chosen)
    assert outcome.failures > 0
    assert any("no_such_module" in part.get("message", "") for part in around.parts.values())
    file.write_text("def test_it(): pass\n")
    assert run("tests", chosen)[0].failures == 0


def test_files_with_a_test_for_a_gpu_are_found() -> None:
    found = gpu_tests(ROOT)
    assert "tests/gpu/test_suite_on_gpu.py" in found
    assert "tests/test_demo.py" not in found


def test_a_line_that_was_cut_short_is_left(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text('{"test": "a", "outcome": "passed"}\n{"test": "b", "out')
    assert list(outcomes(file)) == [("a", {"outcome": "passed"})]
    assert list(outcomes(tmp_path / "none")) == []
