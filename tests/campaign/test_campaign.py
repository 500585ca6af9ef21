"""Sequences of steps, each in its own process: outcomes and recorded state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from campaign.campaign import Campaign, StateError
from campaign.files import read_json, write_json
from campaign.options import Options
from campaign.plan import Step, chosen_steps
from campaign.report import write_report

from tests.campaign.tiny_campaign import options

SEARCH = chosen_steps(["search"])


def campaign(chosen: Options, said: list[str]) -> Campaign:
    return Campaign(chosen, say=said.append, command=["here"])


def state(chosen: Options) -> dict[str, Any]:
    found: dict[str, Any] = read_json(chosen.out_path / "state.json", None)
    return found


def test_a_finished_step_is_not_run_again(tmp_path: Path) -> None:
    chosen, said = options(tmp_path), list[str]()
    assert campaign(chosen, said).run(SEARCH, 60.0) == 0
    assert state(chosen)["steps"]["search"]["status"] == "finished"
    schedules = read_json(chosen.out_path / "schedules.json", None)
    assert set(schedules["H200 132"]) == {"blur/small/roots", "blur/paper/roots"}
    assert campaign(chosen, said).run(SEARCH, 60.0) == 0
    assert said[-1] == "search: finished before"
    assert campaign(chosen, said).run(SEARCH, 60.0, again=["search"]) == 0
    assert said[-1].startswith("search: finished: 2 of 2 searches")
    assert len(state(chosen)["calls"]) == 3
    summary = write_report(chosen.out_path).read_text()
    assert "| search | finished |" in summary
    assert summary.count("`here`") == 3


def test_a_step_over_its_time_limit_is_killed_and_resumed_later(tmp_path: Path) -> None:
    chosen, said = options(tmp_path, apps=("local_laplacian",), strategies=("beam",)), list[str]()
    hasty = [replace(SEARCH[0], least_s=0.0)]
    assert campaign(chosen, said).run(hasty, 5.5) == 0
    found = state(chosen)["steps"]["search"]
    assert found["status"] == "to be continued"
    assert found["seconds"] < 5.0


def test_a_failed_step_reports_its_error(tmp_path: Path) -> None:
    chosen, said = options(tmp_path, strategies=("nonsense",)), list[str]()
    assert campaign(chosen, said).run(SEARCH, 60.0) == 1
    found = state(chosen)["steps"]["search"]
    assert found["status"] == "failed"
    assert "there is no strategy 'nonsense'" in found["message"]


def test_no_step_starts_without_time(tmp_path: Path) -> None:
    chosen, said = options(tmp_path), list[str]()
    patient = [Step("search", 1.0, least_s=1000.0)]
    assert campaign(chosen, said).run(patient, 30.0) == 0
    assert state(chosen)["steps"]["search"]["message"] == "there was no time left"


def test_results_of_two_devices_are_not_mixed(tmp_path: Path) -> None:
    chosen = options(tmp_path)
    write_json(chosen.out_path / "state.json", {"version": 1, "device": "NVIDIA H100", "calls": [], "steps": {}})
    with pytest.raises(StateError, match="results of NVIDIA H100, and this machine has simulated"):
        campaign(chosen, []).run(chosen_steps(["search", "timing"]), 30.0)


def test_schedules_may_come_from_another_machine(tmp_path: Path) -> None:
    chosen = options(tmp_path)
    assert campaign(chosen, []).run(SEARCH, 60.0) == 0
    assert state(chosen)["device"] == ""


def test_steps_without_a_gpu_run_on_any_machine(tmp_path: Path) -> None:
    chosen, said = options(tmp_path, target="cuda", device="h200"), list[str]()
    steps = chosen_steps(["search", "collect"])
    found = Campaign(chosen, say=said.append, why_not=lambda *_: "")
    found._machine = lambda seconds: {"device": "", "error": "Traceback\nNoDriver: there is none"}  # type: ignore[method-assign]
    assert found.run(steps, 60.0) == 1
    assert state(chosen)["steps"]["search"]["status"] == "finished"
    assert state(chosen)["steps"]["collect"] == {
        "status": "skipped", "message": "no GPU was found: NoDriver: there is none", "call": 1,
    }  # fmt: skip
    assert "no device: NoDriver: there is none" in write_report(chosen.out_path).read_text()
