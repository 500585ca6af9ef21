"""The command line on valid input: results, output and files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from autosched.apps import get_app, load_apps
from autosched.cli import main
from autosched.reference import interpret

SIZES = ["--size", "H=20", "--size", "W=30"]


def run(*arguments: str | Path) -> Result:
    """Run a command that must succeed, and return its output."""
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exit_code == 0, result.stderr
    return result


def run_json(*arguments: str | Path) -> Any:
    """Run a command with --json; its whole stdout must be one JSON document."""
    return json.loads(run(*arguments, "--json").stdout)


def small_inputs(name: str, path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Write an app's small inputs, as arrays of a shape that is nobody's default."""
    arrays = get_app(name).make_inputs(get_app(name).small_sizes, seed=3)
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return arrays


def test_apps() -> None:
    listed = run_json("apps")
    assert [app["name"] for app in listed] == list(load_apps())
    unsharp = next(app for app in listed if app["name"] == "unsharp")
    assert unsharp["inputs"] == {"input": {"dtype": "float32", "shape": ["3", "H", "W"]}}
    assert (unsharp["outputs"], unsharp["params"]) == (["output"], {"sigma": 1.5})
    printed = run("apps").stdout
    assert all(name in printed for name in load_apps())


def test_schedule_prints_the_loop_nest() -> None:
    printed = run("schedule", "harris", *SIZES, "--strategy", "roots").stdout
    assert "ixx[y, x]" in printed or "ixx" in printed
    assert "kernels for H200, roots" in printed and "threadIdx.x" in printed


def test_schedule_as_json_and_file(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    found = run_json(
        "schedule", "harris", *SIZES, "--target", "a100", "--strategy", "roots", "--seed", "0", "--out", path
    )
    assert (found["app"], found["target"], found["strategy"]) == ("harris", "A100", "roots")
    assert len(found["kernels"]) == len(json.loads(path.read_text())["kernels"])
    assert all(k["block"][0] <= 1024 and k["grid"][0] >= 1 for k in found["kernels"])


@pytest.mark.parametrize("backend", ["cpu", "emulator", "interpreter"])
@pytest.mark.parametrize("app", ["blur", "unsharp", "harris", "sgemm"])
def test_run_on_arrays_of_a_file(app: str, backend: str, tmp_path: Path) -> None:
    arrays = small_inputs(app, tmp_path / "in.npz")
    run("run", app, "--inputs", tmp_path / "in.npz", "--output", tmp_path / "out.npz", "--target", backend)
    expected = interpret(get_app(app).build(), arrays)
    with np.load(tmp_path / "out.npz") as written:
        assert set(written.files) == set(expected)
        for name, array in expected.items():
            np.testing.assert_array_equal(written[name], array)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.npz", "out.npz"]


@pytest.mark.parametrize("given", ["sigma=0.7", "sigma = 2"])
def test_run_with_a_parameter(given: str, tmp_path: Path) -> None:
    arrays = small_inputs("unsharp", tmp_path / "in.npz")
    run("run", "unsharp", "--inputs", tmp_path / "in.npz", "--output", tmp_path / "out.npz", "--param", given)
    app = get_app("unsharp")
    expected = app.reference(arrays, {"sigma": float(given.partition("=")[2])})["output"]
    with np.load(tmp_path / "out.npz") as written:
        assert app.tolerance.mismatch(written["output"], expected) is None


def test_run_time_parameter(tmp_path: Path) -> None:
    arrays = small_inputs("unsharp_polymage", tmp_path / "in.npz")
    out = tmp_path / "out.npz"
    run("run", "unsharp_polymage", "--inputs", tmp_path / "in.npz", "--output", out, "--param", "weight=0")
    with np.load(out) as written:
        np.testing.assert_array_equal(written["output"], arrays["input"][:, 2:-2, 2:-2])


@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_run_with_a_saved_schedule(target: str, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    run("schedule", "harris", *SIZES, "--target", target, "--strategy", "roots", "--out", path)
    found = run_json("run", "harris", *SIZES, "--schedule", path, "--target", "cpu")
    assert found["kernels"] == len(json.loads(path.read_text())["kernels"])
    assert found["outputs"]["output"]["shape"] == [14, 24]


def test_run_replaces_its_output(tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    out.write_bytes(b"old")
    found = run_json("run", "blur", *SIZES, "--output", out)
    assert found["output"] == str(out)
    with np.load(out) as written:
        assert [float(written["output"].min()), float(written["output"].max())] == [
            found["outputs"]["output"][key] for key in ("min", "max")
        ]


def test_seed_changes_generated_inputs() -> None:
    ranges = [run_json("run", "sgemm", "--size", "M=5", "--size", "N=6", "--size", "K=7", "--seed", s)["outputs"]
              for s in ("0", "0", "1")]  # fmt: skip
    assert ranges[0] == ranges[1] != ranges[2]


@pytest.mark.parametrize("against", ["numpy", "interpreter"])
def test_bench(against: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.commands.timing.BUDGET_S", 0.01)
    found = run_json("bench", "unsharp", *SIZES, "--target", "cpu", "--against", against, "--param", "sigma=2.5")
    assert found["mismatch"] is None
    assert found["ratio"] == pytest.approx(found["reference"]["median_s"] / found["ours"]["median_s"])
    limit = found["limit"]
    assert limit["moved_bytes"] == 2 * 3 * 20 * 30 * 4
    assert limit["seconds"] == pytest.approx(limit["moved_bytes"] / limit["copy_bytes_per_s"])


def test_bench_as_text_and_a_wrong_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.commands.timing.BUDGET_S", 0.01)
    assert "times as fast as NumPy/SciPy" in run("bench", "blur", *SIZES, "--target", "cpu").stdout

    def wrong(self: Any, inputs: Any, params: Any = None) -> Any:
        return {"output": np.zeros((20, 30), np.uint16)}

    monkeypatch.setattr("autosched.apps.app.App.reference", wrong)
    result = CliRunner().invoke(main, ["bench", "blur", *SIZES, "--target", "cpu"])
    assert result.exit_code == 1
    assert "error: wrong result: output: 600 of 600 elements differ" in result.stderr


def test_doctor() -> None:
    found = run_json("doctor")
    assert {"numpy", "C compiler", "NVRTC", "CUDA device"} <= {check["name"] for check in found["checks"]}
    assert all(check["ok"] or check["remedy"] for check in found["checks"])
    assert found["can"]["schedule pipelines"] is True
    printed = run("doctor").stdout
    assert "yes      schedule pipelines" in printed


def test_as_a_program(tmp_path: Path) -> None:
    """The entry point itself: stdout holds the JSON and nothing else, the exit code is the process's."""
    program = [sys.executable, "-m", "autosched.cli"]
    done = subprocess.run([*program, "run", "blur", *SIZES, "--json"], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["outputs"]["output"]["shape"] == [20, 30]
    failed = subprocess.run([*program, "run", "nothing", "--json"], capture_output=True, text=True, cwd=tmp_path)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.startswith("error: no app 'nothing'")
