"""`autosched apps`: the list, one app in detail, and the check through all backends."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import autosched
from autosched.apps import App, get_app, load_apps
from autosched.cli import main
from autosched.errors import InputError
from autosched.lang.pipeline import Pipeline
from autosched.runtime.call.compiled import CompiledPipeline
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.scheduled_pipeline import ScheduledPipeline

BACKENDS = ["interpreter", "emulator", "cpu"]


def run(*arguments: str, code: int = 0) -> Result:
    """Run ``autosched apps``."""
    result = CliRunner().invoke(main, ["apps", *arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def altered(monkeypatch: pytest.MonkeyPatch) -> Callable[..., App]:
    """Replaces parts of an app in the registry."""

    def alter(name: str, **changes: Any) -> App:
        app = dataclasses.replace(get_app(name), **changes)
        monkeypatch.setattr(
            "autosched.commands.apps.get_app", lambda wanted: app if wanted == name else get_app(wanted)
        )
        return app

    return alter


def test_list_as_json() -> None:
    listed = {app["name"]: app for app in json.loads(run("--json").stdout)}
    assert list(listed) == list(load_apps())
    chain = listed["stencil_chain"]
    assert (chain["funcs"], chain["definitions"], chain["params"]) == (34, 34, {"stages": 32})
    product = listed["sgemm"]
    assert (product["funcs"], product["definitions"]) == (2, 3)
    assert product["inputs"]["B"] == {"dtype": "float32", "shape": ["K", "N"]}
    assert all(app["summary"] and app["sizes"].keys() == app["small_sizes"].keys() for app in listed.values())
    ours = [name for name, app in listed.items() if not app["papers"]]
    assert ours == [
        "layer_norm", "standardize", "kernel_regression", "softmax", "cross_entropy", "rms_norm", "layer_norm_softmax",
        "group_norm", "attention", "masked_attention", "causal_attention", "box", "box_bytes",
    ]  # fmt: skip


def test_list_fits_a_page() -> None:
    lines = run().stdout.splitlines()
    assert max(map(len, lines)) <= 120
    assert {line.split()[0] for line in lines if line and not line.startswith(" ")} >= set(load_apps())


def test_details() -> None:
    printed = run("unsharp", "sgemm", "unsharp").stdout
    assert printed.count("unsharp\n") == 1
    assert "  input       input float32[3, H, W]\n" in printed
    assert "  input       A float32[M, K]\n" in printed
    assert "  stages      2 Funcs with 3 definitions\n" in printed
    assert "  parameters  sigma=1.5\n" in printed and "  parameters  none\n" in printed
    assert [app["name"] for app in json.loads(run("sgemm", "blur", "--json").stdout)] == ["sgemm", "blur"]


def test_unknown_app() -> None:
    assert "error: no app 'harri': did you mean 'harris'?" in run("harri", code=2).stderr
    assert run("--check", "blur", "harri", code=2).stdout == ""


def test_check() -> None:
    result = run("--check", "blur", "sgemm")
    lines = [line.split() for line in result.stdout.splitlines() if not line.startswith("not checked")]
    assert [line[:2] for line in lines[:2]] == [["blur", "ok"], ["sgemm", "ok"]]
    assert " ".join(lines[0]).count("reference, interpreter, emulator, cpu") == 1
    assert " ".join(lines[2]) == "2 of 2 apps are right"


LARGE = frozenset({
    "addsgd4", "bgu", "denoise", "hypterm", "interpolate", "local_laplacian", "pyramid_blend", "smoother27pt",
    "stencil_chain",
})  # fmt: skip
"""Apps that compile for many seconds and are in the short runs of tests/test_suite_schedules.py."""


def _in_the_long_runs(name: str) -> object:
    return pytest.param(name, marks=pytest.mark.fuzz) if name in LARGE else name


@pytest.mark.parametrize("name", map(_in_the_long_runs, load_apps()))
def test_every_app_is_right(name: str) -> None:
    (found,) = json.loads(run("--check", name, "--json").stdout)
    assert found["app"] == name and found["ok"]
    made = ["build", "reference", *BACKENDS, *(["NVRTC"] if have_nvrtc() else [])]
    assert found["checks"] == dict.fromkeys(made) | dict.fromkeys(found["checks"].keys() - set(made))
    assert found["seconds"] > 0


def test_wrong_reference(altered: Callable[..., App]) -> None:
    right = get_app("blur").compute
    altered("blur", compute=lambda **arrays: {name: array + np.uint16(1) for name, array in right(**arrays).items()})
    result = run("--check", "blur", "sgemm", code=1)
    assert "blur                      WRONG" in result.stdout and "sgemm                     ok" in result.stdout
    assert result.stdout.count("output differs from the reference's: ") == len(BACKENDS)
    assert result.stderr == "error: 1 of 2 apps is wrong: blur\n"


def test_backend_that_differs_from_the_interpreter(
    altered: Callable[..., App], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A difference within the tolerance is wrong where every operation has one result."""
    app = altered("unsharp")
    computed = "autosched.commands.check_apps.compute"
    monkeypatch.setattr(computed, lambda kernel, arrays: {"output": np.nextafter(kernel(arrays), np.float32(9))})
    (found,) = json.loads(run("--check", app.name, "--json", code=1).stdout)
    assert found["checks"]["interpreter"] is None
    for backend in ("emulator", "cpu"):
        assert "output differs from the interpreter's: " in found["checks"][backend]
        assert "differ in their bits" in found["checks"][backend]


@pytest.mark.parametrize(("name", "ok"), [("unsharp", True), ("blur", False)])
def test_gpu_is_held_to_the_tolerance(name: str, ok: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator stands in for a GPU that rounds differently: floats may, integers may not."""

    class Scheduled(ScheduledPipeline):
        def compile(self, backend: str | None = None, *, fast_math: bool = False) -> CompiledPipeline:
            return super().compile("emulator" if backend == "cuda" else backend)

    def schedule(pipeline: Pipeline, *, target: str, **arguments: Any) -> ScheduledPipeline:
        found = autosched.schedule(pipeline, target="h200" if target == "cuda" else target, **arguments)
        rounding.append(target == "cuda")
        return Scheduled(found.bound, found.schedule, found.target)

    def computed(kernel: CompiledPipeline, arrays: Any) -> Any:
        output = kernel(arrays)
        near = np.nextafter(output, output + 1) if output.dtype.kind == "f" else output + 1
        return {"output": near.astype(output.dtype) if rounding[-1] else output}

    rounding: list[bool] = []
    for part, stand_in in {"schedule": schedule, "compute": computed, "gpu_problem": lambda: None}.items():
        monkeypatch.setattr(f"autosched.commands.check_apps.{part}", stand_in)
    (found,) = json.loads(run("--check", name, "--json", code=0 if ok else 1).stdout)
    assert list(found["checks"])[-1] == "cuda"
    assert (found["checks"].pop("cuda") is None) == ok
    assert set(found["checks"].values()) == {None}


def test_failures_are_told_and_stop_nothing(altered: Callable[..., App]) -> None:
    def refuse(**arrays: Any) -> Any:
        raise ZeroDivisionError("nothing to divide")

    altered("blur", compute=refuse)
    (found,) = json.loads(run("--check", "blur", "--json", code=1).stdout)
    assert found["checks"]["reference"] == "ZeroDivisionError: nothing to divide"
    assert all(found["checks"][backend] is None for backend in BACKENDS)


def test_pipeline_that_cannot_be_built(altered: Callable[..., App]) -> None:
    def build() -> Pipeline:
        raise InputError("no pipeline today")

    altered("blur", build=build)
    (found,) = json.loads(run("--check", "blur", "--json", code=1).stdout)
    assert found["checks"] == {"build": "InputError: no pipeline today"}


def test_missing_tools_are_not_failures(altered: Callable[..., App], monkeypatch: pytest.MonkeyPatch) -> None:
    def without_scipy(**arrays: Any) -> Any:
        raise InputError("SciPy is not installed") from ImportError()

    altered("blur", compute=without_scipy)
    monkeypatch.setattr("autosched.commands.check_apps.have_compiler", lambda language: False)
    monkeypatch.setattr("autosched.commands.check_apps.have_nvrtc", lambda: False)
    result = run("--check", "blur")
    assert "not checked: cpu, since there is no C compiler\n" in result.stdout
    assert "not checked: reference: SciPy is not installed\n" in result.stdout
    (found,) = json.loads(run("--check", "blur", "--json").stdout)
    assert found["skipped"].keys() >= {"reference", "emulator", "cpu", "NVRTC"}
