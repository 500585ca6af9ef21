"""The demonstration, on a small picture: it agrees, and leaves everything it promises."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from drawings import demo as demo_module

from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.io.serialise import VERSION
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.tune.provenance import Provenance
from autosched.search.tune.schedule_cache import keep_tuned
from autosched.target import get_target

FILES = {"input.png", "harris.png", "unsharp.png", "report.md"} | {
    f"{app}.{kind}" for app in ("harris", "unsharp") for kind in ("cu", "txt", "json", "html")
}

pytestmark = pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(demo_module, "SIZES", {"H": 160, "W": 200})
    monkeypatch.setattr(demo_module, "RUNS", 1)
    monkeypatch.setattr(demo_module, "SAMPLES", 2)
    return demo_module


def test_demo(
    demo: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["demo.py", str(tmp_path / "out")])
    assert demo.main() == 0
    printed = capsys.readouterr().out
    assert printed.count("equal to the NumPy interpreter in every bit") == 2
    assert printed.count("0 bytes spilled") == 2
    assert printed.count("analytical model for H200") == 2
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == FILES
    assert all((out / name).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" for name in FILES if name.endswith(".png"))
    assert json.loads((out / "harris.json").read_text())["version"] == VERSION
    assert "KERNEL(unsharp_output, " in (out / "unsharp.cu").read_text()
    assert "| harris_output |" in (out / "report.md").read_text()


def test_demo_searches_where_a_tuned_schedule_is_cached(
    demo: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tuned schedule has no predicted time to print."""
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))
    app, target = get_app("unsharp"), get_target(demo.TARGET)
    image = app.make_inputs({"H": 160, "W": 200})["input"]
    bound = bind(app.build(), {"input": image.shape})
    tuned = Provenance(how="tuned", measured_s=1e-6, source="simulated:H200")
    keep_tuned(bound, target, schedule_roots(bound, target), tuned)
    demo.demonstrate("unsharp", image, tmp_path)
    assert re.search(r"predicted \d+ us by the analytical model for H200", capsys.readouterr().out)


def test_demo_fails_on_a_difference(
    demo: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["demo.py", str(tmp_path)])
    wrong = get_app("harris").make_inputs({"H": 160, "W": 200})["input"][0]
    monkeypatch.setattr(demo.autosched, "interpret", lambda *_: {"output": np.zeros_like(wrong)})
    assert demo.main() == 1
    assert "error: harris, unsharp: the C backend and the interpreter disagree" in capsys.readouterr().err
