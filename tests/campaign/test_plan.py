"""Choice of steps, their requirements and time limits."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from campaign.context import Context, Outcome
from campaign.options import Options
from campaign.plan import NAMES, STEPS, Step, budgets, chosen_steps, has_module, why_not
from campaign.step import run_step

from tests.campaign.tiny_campaign import options


def step(name: str) -> Step:
    return next(s for s in STEPS if s.name == name)


def test_steps_come_in_the_order_of_the_campaign() -> None:
    assert [s.name for s in chosen_steps(["train", "tests", "collect"])] == ["tests", "collect", "train"]
    with pytest.raises(ValueError, match="there is no step 'nonsense'; there is tests, search"):
        chosen_steps(["nonsense"])


def test_time_is_shared_by_weight() -> None:
    found = budgets([step("suite"), step("collect")], 110.0)
    assert sum(found) == pytest.approx(110.0)
    assert found[1] / found[0] == pytest.approx(step("collect").weight / step("suite").weight)


def test_missing_requirements_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = options(tmp_path, target="cuda")
    everything = {name: why_not(step(name), cuda, find=lambda _: False) for name in NAMES}
    assert all("Python modules are missing" in reason for reason in everything.values())
    assert "PIL, cuda.core, cupy, networkx, numpy, pyarrow" in everything["collect"]
    assert "cupy" not in everything["search"]
    assert "cupy" not in everything["train"]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert why_not(step("sanitizer"), cuda, find=lambda _: True) == "the program compute-sanitizer is not on the PATH"
    assert "(--peers)" in why_not(step("peers"), cuda, find=lambda _: True)
    assert not why_not(step("peers"), replace(cuda, peers="somewhere"), find=lambda _: True)
    simulated = replace(cuda, target="simulated")
    assert why_not(step("suite"), simulated, find=lambda _: True) == "it does not run on the target simulated"
    assert why_not(step("timing"), simulated, find=lambda m: m != "cuda.core").endswith("missing: cuda.core")


def test_modules_are_looked_up_without_importing_them() -> None:
    assert has_module("networkx.algorithms")
    assert not has_module("no_such_package.inside")
    assert has_module("this")
    assert "this" not in sys.modules


def test_a_step_has_a_margin_within_its_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []

    def run(context: Context) -> Outcome:
        told.append(context.deadline - time.monotonic())
        context.record("part", {"found": 1})
        return Outcome(True, "well")

    monkeypatch.setitem(sys.modules, "campaign.pretended", SimpleNamespace(run=run))  # type: ignore[arg-type]
    chosen = options(tmp_path)
    for seconds in (4.0, 20.0, 200.0):
        assert run_step("pretended", chosen, seconds).finished
    assert told == [pytest.approx(n, abs=0.1) for n in (2.0, 17.0, 188.0)]


def test_options_round_trip_through_text(tmp_path: Path) -> None:
    chosen = options(tmp_path, schedules={"beam": 1}, hold_out=("blur",), pipeline_settings={"max_stages": 3})
    assert Options.parse(chosen.text()) == chosen
