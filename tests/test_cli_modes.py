"""The modes from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import autosched
from autosched.cli import main
from autosched.commands import problem
from autosched.commands.fission import WrittenCandidates, print_candidates
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.tune.fission_candidates import FissionCandidates

SIZES = ("--size", "H=64", "--size", "W=96")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def run_json(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--json").stdout)
    return found


def test_one_shot(tmp_path: Path) -> None:
    arguments = ("schedule", "blur", *SIZES, "--samples", 3, "--out", tmp_path / "s.json")
    found = run_json(*arguments)
    assert found["origin"]["strategy"] == "one-shot"
    assert found["origin"]["model"] == "analytical model for H200"
    assert "labels simulated:H200@" in run_json(*arguments, "--cost", "learned")["origin"]["model"]
    assert (tmp_path / "s.json").exists()
    printed = run(*arguments).stdout
    assert "one-shot of 3, default effort, predicted" in printed
    assert "taken from the cache" in printed


def test_top5_on_the_simulated_device() -> None:
    arguments = ("schedule", "blur", *SIZES, "--samples", 6, "--mode", "top5", "--simulated")
    found = run_json(*arguments, "--no-reuse")
    times = [t["seconds"] for t in found["trials"]["schedules"]]
    assert times == sorted(times)
    assert found["trials"]["source"] == found["origin"]["source"]
    assert found["trials"]["source"].startswith("simulated:H200")
    printed = run(*arguments, "--no-reuse").stdout
    assert "simulated" in printed and "baseline" in printed


def test_tune_and_resume(tmp_path: Path) -> None:
    arguments = ("tune", "blur", *SIZES, "--simulated", "--samples", 3, "--db", tmp_path / "t.sqlite")
    first = run_json(*arguments, "--iterations", 1)
    assert first["measured"] == 3
    assert first["best_seconds"] <= first["baseline_seconds"]
    assert first["trials"]["schedules"][0]["seconds"] == first["best_seconds"]
    refused = CliRunner().invoke(main, [str(a) for a in (*arguments, "--iterations", 2)])
    assert refused.exit_code != 0
    assert "resume it, or choose another" in refused.output
    printed = run(*arguments, "--iterations", 2, "--resume", "--html", tmp_path / "t.html").stdout
    assert "6 schedules measured" in printed
    assert (tmp_path / "t.html").exists()
    again = run("schedule", "blur", *SIZES).stdout
    assert "autotune of" in again and "the first is taken" in again  # of 3 if the second batch has none that is faster
    assert "nothing to explain: --no-reuse" in run("schedule", "blur", *SIZES, "--explain").stdout


@pytest.mark.parametrize("command", ["schedule", "tune"])
def test_files_are_refused_before_any_work(command: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, [command, "blur", "--html", str(tmp_path / "no" / "r.html")])
    assert result.exit_code != 0
    assert "there is no directory" in result.output


def test_a_target_that_is_not_here() -> None:
    result = CliRunner().invoke(main, ["tune", "blur", "--target", "v100"])
    assert result.exit_code != 0
    assert "schedules for V100 cannot be measured" in result.output


def test_run_and_bench_take_the_tuned_schedule(tmp_path: Path) -> None:
    assert "scheduled for cpu" in run("bench", "blur", *SIZES, "--target", "cpu").stdout
    run("tune", "blur", *SIZES, "--target", "cpu", "--samples", 2, "--iterations", 1, "--db", tmp_path / "t.sqlite")
    assert "tuned for cpu" in run("bench", "blur", *SIZES, "--target", "cpu").stdout
    assert "tuned for cpu" in run("run", "blur", *SIZES, "--target", "cpu").stdout
    assert "scheduled for cpu" in run("run", "blur", *SIZES, "--target", "cpu", "--strategy", "beam").stdout


def test_a_file_and_a_strategy(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["run", "blur", "--schedule", str(tmp_path / "s.json"), "--strategy", "beam"])
    assert result.exit_code != 0
    assert "leave out --strategy" in result.output


def test_cache(tmp_path: Path) -> None:
    run("schedule", "blur", *SIZES, "--samples", 2)
    run("tune", "blur", *SIZES, "--simulated", "--samples", 2, "--iterations", 1, "--db", tmp_path / "t.sqlite")
    before = run_json("cache")
    assert before["directory"] == str(tmp_path / "cache")
    assert before["kinds"]["schedule"]["entries"] == 1
    assert "cubin" in before["kinds"] and len(before["tuned"]) == 1
    printed = run("cache", "--clear").stdout
    assert "removed" in printed and "tuned schedules" in printed
    after = run_json("cache")
    assert after["kinds"] == {} and after["tuned"] == before["tuned"]


def test_effort() -> None:
    arguments = ("schedule", "blur", *SIZES, "--target", "cpu", "--effort", "fast")
    found = run_json(*arguments)
    assert (found["effort"], found["samples"], found["origin"]["effort"]) == ("fast", None, "fast")
    assert "one-shot, fast effort, predicted" in run(*arguments).stdout


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ("run", "blur", *SIZES, "--effort", "fast"),
            "--effort fast has no search to apply to: add --strategy one-shot",
        ),
        (
            ("export", "blur", *SIZES, "--out", "d", "--schedule", "s.json", "--effort", "fast"),
            "--schedule is exported without a search: leave out --strategy, --effort and --seconds",
        ),
    ],
)
def test_effort_without_a_search(arguments: tuple[str, ...], error: str) -> None:
    assert error in run(*arguments, code=2).stderr


def test_effort_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    efforts: list[str] = []

    def spy(*arguments: Any, effort: str, **options: Any) -> ScheduledPipeline:
        efforts.append(effort)
        return autosched.schedule(*arguments, effort=effort, **options)

    monkeypatch.setattr(problem, "schedule", spy)
    for option in (("--effort", "fast"), ()):
        run("run", "blur", *SIZES, "--target", "cpu", "--strategy", "one-shot", *option)
    assert efforts == ["fast", "default"]


def test_fission_candidates_are_files_that_run(tmp_path: Path) -> None:
    small = ("--size", "D=6", "--size", "H=8", "--size", "W=20")
    arguments = ("schedule", "miniflux", *small, "--effort", "fast", "--fission-candidates", tmp_path / "fission")
    found = run_json(*arguments)["fission_candidates"]
    names = [c["name"] for c in found["found"]]
    assert names == ["maxfuse", "trivial-fission", "group-fission"] and found["refused"] == []
    assert [c["kernels"] for c in found["found"]] == [1, 5, 2]
    arrays = []
    for candidate in found["found"]:
        out = tmp_path / f"{candidate['name']}.npz"
        run("run", "miniflux", *small, "--target", "cpu", "--schedule", candidate["file"], "--output", out)
        arrays.append(dict(np.load(out)))
    for other in arrays[1:]:
        for name, values in arrays[0].items():
            np.testing.assert_array_equal(other[name], values)
    assert "group-fission" in run(*arguments).stdout
    (tmp_path / "file").touch()
    refused = run(*arguments[:-1], tmp_path / "file", code=2)
    assert "cannot make directory" in refused.output and "choose another path" in refused.output


def test_fissions_that_are_all_refused_have_no_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    print_candidates(WrittenCandidates(FissionCandidates((), ("maxfuse",)), tmp_path))
    assert capsys.readouterr().out == "maxfuse has no legal schedule: its kernels would have too much code\n"


@pytest.mark.fuzz
@pytest.mark.skipif(not have_nvrtc(), reason="the simulated device compiles")
def test_plans_write_fission_candidates(tmp_path: Path) -> None:
    small = ("--size", "D=6", "--size", "H=8", "--size", "W=20")
    plan = ("tune", "miniflux", *small, "--simulated", "--plan", "artemis", "--levels", "prefetch", "--seconds", 60)
    found = run_json(*plan, "--fission-candidates", tmp_path)["fission_candidates"]["found"]
    assert {Path(c["file"]).name for c in found} == {"maxfuse.json", "trivial-fission.json", "group-fission.json"}
    assert all(Path(c["file"]).parent == tmp_path and Path(c["file"]).is_file() for c in found)
    refused = run("tune", "miniflux", *small, "--fission-candidates", tmp_path, code=2)
    assert "add --plan artemis" in refused.output


def test_weights_of_polymage(tmp_path: Path) -> None:
    """Weights of transactions alone fuse all of unsharp_polymage; those of overlap alone fuse none of it."""
    chosen = ("schedule", "unsharp_polymage", *SIZES, "--strategy", "polymage", "--polymage-weights")
    names = ("transactions", "occupancy", "memory_time", "shared_memory", "registers", "overlap", "extra_blocks")
    kernels = {}
    for name in ("transactions", "overlap"):
        path = tmp_path / f"{name}.json"
        weights = {n: float(n == name) for n in names}
        path.write_text(json.dumps({"weights": weights, "transaction_bytes": [32]}))
        kernels[name] = len(run_json(*chosen, path)["kernels"])
    assert kernels["transactions"] < kernels["overlap"]
    assert "polymage" in run(*chosen, "h200").stdout
    refused = CliRunner().invoke(main, ["schedule", "blur", *SIZES, "--polymage-weights", "v100"])
    assert refused.exit_code == 2 and "add --strategy polymage" in refused.output
    missing = CliRunner().invoke(main, [*chosen, "missing"])
    assert missing.exit_code == 2 and "neither a file of weights nor one of v100, 1080ti, h200" in missing.output
