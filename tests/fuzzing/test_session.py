"""Resumed runs, and isolation of programs that hang or crash."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from fuzzing.check import DIED, HUNG, RIGHT, WRONG
from fuzzing.records import FILE, Records, Row, summary
from fuzzing.session import Session
from fuzzing.worker_pool import ProgramWorkers, Task

from tests.fuzzing.conftest import SCRIPTS
from tests.fuzzing.small import clumsy_judge, small

PROGRAMS_OF_CI = 8
"""Number of programs in the tests: about a minute of one core."""


def test_an_interrupted_run_is_resumed(tmp_path: Path) -> None:
    first = list(islice(Session(tmp_path).run(range(20, 24)), 2))
    second = list(Session(tmp_path).run(range(20, 24)))
    assert sorted(r.number for r in (*first, *second)) == [20, 21, 22, 23]
    assert [r.number for r in Records(tmp_path).rows()] == [r.number for r in (*first, *second)]
    assert not list(Session(tmp_path).run(range(20, 24)))


def test_a_truncated_line_is_written_again(tmp_path: Path) -> None:
    Records(tmp_path).append(Row(7, "far reads", RIGHT, 0.5))
    with (tmp_path / FILE).open("a") as file:
        file.write('{"number": 8, "fam')
    records = Records(tmp_path)
    with records.open_to_append():
        records.append(Row(9, "far reads", RIGHT, 0.5))
    assert records.done() == {7, 9}


def test_two_runs_do_not_write_to_one_directory(tmp_path: Path) -> None:
    command = [sys.executable, f"{SCRIPTS}/fuzz_programs.py", "--count", "1", "--out", str(tmp_path)]
    with Records(tmp_path).open_to_append():
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 2
    assert finished.stderr.startswith(f"another run writes to {tmp_path}")


def test_the_summary_counts_by_class_and_reason() -> None:
    rows = [
        Row(1, "far reads", RIGHT, 1.0), Row(2, "far reads", WRONG, 2.0, signature=(WRONG, "cpu", "beam")),
        Row(3, "chain", "refused", 0.0, reason="DSLError: no"),
    ]  # fmt: skip
    lines = summary(rows).splitlines()
    assert "far reads                           2      1       0      0      1       1.50" in lines
    assert "refused 1 times: DSLError: no" in lines
    assert "failed 1 times: wrong; cpu; beam" in lines


def test_programs_that_hang_or_die_are_recorded_and_the_rest_checked() -> None:
    tasks = [Task(small(k, text), (), key=k) for k, text in enumerate(("right", "die", "wrong", "hang", "right"))]
    with ProgramWorkers(2, limit_s=8.0, judge=clumsy_judge) as crew:
        found = {task.key: outcome for task, outcome, _ in crew.outcomes(tasks)}
    assert [found[k].verdict for k in range(5)] == [RIGHT, DIED, WRONG, HUNG, RIGHT]
    assert found[1].failures[0].message == "the process ended with 3"
    assert found[3].failures[0].message == "still running after 8 processor seconds"


def test_random_programs_are_right(tmp_path: Path) -> None:
    rows = list(Session(tmp_path, limit_s=600.0).run(range(PROGRAMS_OF_CI)))
    failed = [r for r in rows if r.signature]
    assert not failed, "\n".join(Path(r.script).read_text() for r in failed if r.script)
    assert sum(r.verdict == RIGHT for r in rows) >= 0.75 * PROGRAMS_OF_CI, summary(rows)


@pytest.mark.parametrize("count", ["0", "2"])
def test_the_command_prints_its_figures(count: str, tmp_path: Path) -> None:
    command = [sys.executable, f"{SCRIPTS}/fuzz_programs.py", "--first", "20", "--count", count, "--out", str(tmp_path)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert finished.stdout.startswith("class ")
    lines = (tmp_path / FILE).read_text().splitlines() if count == "2" else []
    assert sorted(json.loads(line)["number"] for line in lines) == [20, 21][: int(count)]
