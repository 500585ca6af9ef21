"""Time loops from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from autosched.cli import main

SIZES = ("--size", "D=10", "--size", "H=12", "--size", "W=16")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("AUTOSCHED_HOST_TIMING", "0")


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result


def run_json(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--json").stdout)
    return found


def test_schedule_and_export(tmp_path: Path) -> None:
    file, page = tmp_path / "s.json", tmp_path / "s.html"
    arguments = ("schedule", "smoother7pt", *SIZES, "--target", "cpu", "--times", 6)
    found = run_json(*arguments, "--out", file, "--html", page)
    assert found["fields"] == {"in": "output"}
    assert sum(found["composition"]) == 6
    assert [v["steps"] for v in found["versions"]] == list(range(1, len(found["versions"]) + 1))
    assert json.loads(file.read_text())["format"] == "autosched-iteration"
    assert "<iframe" in page.read_text()
    printed = run(*arguments, "--explain").stdout
    assert "fused steps" in printed and "no more steps are fused: " in printed
    exported = run_json(
        "export", "smoother7pt", *SIZES, "--target", "cpu", "--times", 6, "--schedule", file, "--out", tmp_path / "c"
    )
    assert "int64_t times" in exported["prototype"]


def test_run_names_the_command_for_a_file_of_a_time_loop(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    run("schedule", "smoother7pt", *SIZES, "--target", "cpu", "--times", 2, "--strategy", "roots", "--out", file)
    message = "has the schedules of a time loop, not one of a pipeline: export it with `autosched export --times`"
    assert message in " ".join(run("run", "smoother7pt", *SIZES, "--schedule", file, code=2).output.split())


def test_times_that_no_model_predicts() -> None:
    text = run("schedule", "smoother7pt", *SIZES, "--target", "h200", "--times", 5, "--strategy", "roots").output
    assert "nan" not in text
    assert "5 steps: 5 runs of 1, unknown" in text
    found = run_json("schedule", "smoother7pt", *SIZES, "--target", "h200", "--times", 5, "--strategy", "roots")
    assert found["predicted_seconds"] is None


def test_tune(tmp_path: Path) -> None:
    database = tmp_path / "t.sqlite"
    found = run_json(
        "tune", "smoother7pt", *SIZES, "--times", 4, "--simulated", "--iterations", 1, "--samples", 2, "--db", database
    )
    assert {v["source"].partition(":")[0] for v in found["versions"]} == {"simulated"}
    names = {p.name for p in tmp_path.glob("*.sqlite")}
    assert names == {"t.sqlite", *(f"t-{v['steps']}.sqlite" for v in found["versions"][1:])}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("schedule", "blur", "--field", "input=output"), "--field is of a time loop: add --times"),
        (("schedule", "blur", "--times", 3, "--target", "cpu"), "return it over the whole field"),
        (("schedule", "denoise", "--times", 3, "--field", "f=u"), "neither an output nor a field"),
    ],
)
def test_refused(arguments: tuple[object, ...], message: str) -> None:
    assert message in " ".join(run(*arguments, code=2).output.split())
