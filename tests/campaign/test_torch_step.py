"""PyTorch functions by our backend beside inductor: the step on a processor, and times on a fake GPU."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from campaign import torch_functions

from autosched.runtime.compile.host_compiler import have_compiler
from tests.campaign.tiny_campaign import options, run

torch = pytest.importorskip("torch")
pytest.importorskip("kornia")
device_timing = pytest.importorskip("kornia_table.device_timing")
functions = pytest.importorskip("kornia_table.functions")
pytestmark = pytest.mark.skipif(not have_compiler("c"), reason="no C compiler")


class HostClock:
    """A clock of calls on the processor, which can replay plain functions alone."""

    def __init__(self) -> None:
        self.calls = 0

    def seconds(self, call: Any, calls: int) -> float:
        started = time.perf_counter()
        for _ in range(calls):
            call()
        self.calls += calls
        return (time.perf_counter() - started) / calls

    def replay(self, function: Any, inputs: Any) -> Any:
        if hasattr(function, "_torchdynamo_orig_callable"):
            raise RuntimeError("cannot be captured")
        return lambda: function(*inputs)


def case(function: Any) -> Any:
    return functions.KorniaFunction("doubled", function, functions.gray, True)


def test_sides_run_in_turns_and_are_compared() -> None:
    clock = HostClock()
    row = device_timing.timed_on_device(case(lambda x: x * 2 + 1), (1, 3, 8, 8), 0.0, False, clock)
    assert {"eager", "autosched", "compiled eager", "eager graph", "first autosched"} <= set(row)
    assert row["right autosched"] is True
    assert "autosched graph" not in row
    assert "cannot be captured" in row["error autosched graph"]
    assert 0 < row["autosched"] < 1
    assert clock.calls >= 3 * 4 * device_timing.CALLS


def test_wrong_results_and_errors_are_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    sides = {"eager": lambda x: x * 2, "autosched": lambda x: x * 2 + 1e-2, "inductor": lambda x: x.missing}
    monkeypatch.setattr(device_timing, "compiled_sides", lambda *_: sides)
    row = device_timing.timed_on_device(case(lambda x: x * 2), (1, 3, 8, 8), 0.0, True, HostClock())
    assert (row["right eager"], row["right autosched"]) == (True, False)
    assert row["error inductor"].startswith("AttributeError")
    assert "inductor" not in row


def test_the_step_times_functions_and_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))
    chosen = options(tmp_path, target="cpu", torch_arguments=("--only", "grayscale", "--most", "1", "--no-inductor"))
    outcome, step_context = run("torch", chosen, seconds=200.0)
    assert outcome.finished, outcome.message
    assert set(step_context.parts) == {"color.rgb_to_grayscale 4x3x512x512", "color.rgb_to_grayscale 1x3x1080x1920"}
    assert all(row["autosched"] > 0 and row["eager"] > 0 for row in step_context.parts.values())
    before = dict(step_context.parts)
    monkeypatch.setattr(torch_functions, "_fill_caches", lambda *_: None)
    assert run("torch", chosen, seconds=100.0)[1].parts == before, "rows are kept"


def test_a_failing_script_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_functions, "_fill_caches", lambda *_: None)
    outcome, _ = run("torch", options(tmp_path, target="cpu", torch_arguments=("--nonsense",)))
    assert not outcome.finished
    assert outcome.failures == 1
    assert "ended with 2" in outcome.message
