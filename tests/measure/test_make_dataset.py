"""The script that makes data sets: time budget, resumption, Parquet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autosched.errors import InputError
from autosched.measure.problem import Problem
from autosched.measure.store.database import ResultsDatabase
from autosched.runtime.compile.nvrtc import have_nvrtc

hydra = pytest.importorskip("hydra")
training_dataset = pytest.importorskip("training.dataset")
pytestmark = pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")

ROOT = Path(__file__).parents[2]
SMALL = [
    "random_pipelines=small", "dataset.pipelines=0", "dataset.apps=[blur]", "dataset.small=true",
    "dataset.schedules={beam: 0, greedy: 0, states: 1, legal: 1, mutations: 2}", "measure.compile_processes=1",
]  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> int:
    with hydra.initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        config = hydra.compose("make_dataset", [*SMALL, *arguments])
    code: int = training_dataset.run(config)
    return code


def test_samples_are_made_once_and_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert run("database=out/a.sqlite", "parquet=out/a.parquet") == 0
    assert "labels simulated:H200" in capsys.readouterr().err
    with ResultsDatabase(tmp_path / "out" / "a.sqlite") as database:
        rows = list(database.rows(status=None))
    assert {r.status for r in rows} == {"ok"}
    assert {r.problem for r in rows} == {Problem.app("blur", small=True)}
    assert {r.origin for r in rows} >= {"roots", "state", "legal", "mutation"}
    keys = [key for r in rows for key in r.kernel_keys]
    assert len(set(keys)) < len(keys), "samples share kernels"
    assert parquet.read_table(tmp_path / "out" / "a.parquet").num_rows == len(rows)
    assert run("database=out/a.sqlite") == 0
    assert "nothing measured" in capsys.readouterr().err
    assert run("database=out/a.sqlite", "dataset.schedules.mutations=3") == 0
    assert f"{len(rows)} known already" in capsys.readouterr().err


def test_the_budget_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("database=a.sqlite", "budget_s=0.001") == 0
    printed = capsys.readouterr().err
    assert "ended by the time budget" in printed
    assert "nothing measured" in printed


def test_schedules_of_other_labels_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    assert run("database=a.sqlite", "parquet=a.parquet") == 0
    again = ["database=b.sqlite", "dataset.labels=a.parquet", "dataset.apps=[harris]"]
    assert run(*again) == 0
    with ResultsDatabase(tmp_path / "a.sqlite") as one, ResultsDatabase(tmp_path / "b.sqlite") as two:
        found = [{(r.problem, r.schedule, r.origin, r.seconds) for r in rows.rows()} for rows in (one, two)]
    assert found[0] == found[1]
    assert f"1 pipelines, {len(found[0])} schedules" in capsys.readouterr().err
    assert run(*again) == 0
    assert "nothing measured" in capsys.readouterr().err


def test_labels_without_times_are_refused(tmp_path: Path) -> None:
    with ResultsDatabase(tmp_path / "empty.sqlite"):
        pass
    with pytest.raises(InputError, match=r"empty\.sqlite holds no times, so there are no schedules to measure"):
        run("database=b.sqlite", "dataset.labels=empty.sqlite")


def test_apps_lie_evenly_among_random_pipelines() -> None:
    with hydra.initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        config = hydra.compose("make_dataset", ["dataset.pipelines=4", "dataset.apps=[blur,harris]", "seed=1"])
    problems = training_dataset.problems_of(config)
    assert [p.kind for p in problems] == ["random", "app", "random", "random", "app", "random"]


def test_problems_of_families_state_them() -> None:
    with hydra.initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        config = hydra.compose("make_dataset", ["random_pipelines=users", "dataset.pipelines=6"])
    titles = [p.title.split(" ") for p in training_dataset.problems_of(config)]
    assert [int(words[-1]) for words in titles] == list(range(6))
    assert {words[-2] for words in titles} <= set(config.random_pipelines.families)
    assert len({words[-2] for words in titles}) > 2


def test_mistakes_are_said_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "other.sqlite").write_text("no database " * 100)
    command = [sys.executable, str(ROOT / "scripts" / "make_dataset.py"), "database=other.sqlite"]
    done = subprocess.run(command, env={**os.environ, "COLUMNS": "200"}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "other.sqlite: file is not a database" in done.stderr
    assert "Traceback" not in done.stderr
