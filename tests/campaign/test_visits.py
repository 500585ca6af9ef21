"""The plan of a visit: what fits into its minutes, in calls of limited length."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from campaign.command_line import main
from campaign.estimates import Need, needs
from campaign.files import write_json
from campaign.paths import ROOT
from campaign.plan import chosen_steps
from campaign.visits import CALL_S, COPY_S, ENDING_S, MARGIN, START_S, carried_line, describe, planned_calls

from autosched.apps.registry import NAMES
from tests.campaign.tiny_campaign import options


def need(step: str, count: int, seconds: float) -> Need:
    return Need(step, count, "parts", seconds)


def test_work_is_divided_among_calls_within_the_minutes() -> None:
    for minutes in (4.0, 15.0, 30.0):
        calls, left = planned_calls([need("suite", 100, 1.0), need("collect", 100_000, 0.1)], minutes)
        assert START_S + sum(call.seconds + COPY_S for call in calls) <= minutes * 60
        assert all(call.seconds <= CALL_S - COPY_S and call.room >= 0 for call in calls)
        used = sum(limit for call in calls for _, limit in call.needs)
        assert used <= sum(call.seconds - ENDING_S for call in calls)
        assert sum(n.count for call in calls for n, _ in call.needs) + sum(n.count for n in left) == 100_100
        assert [n.step for n in left] == ["collect"]


def test_the_most_important_work_comes_first_and_steps_have_limits() -> None:
    calls, left = planned_calls([need("timing", 10, 2.0), need("tests", 1, 90.0), need("collect", 10**6, 1.0)], 15.0)
    assert [n.step for n, _ in calls[0].needs] == ["timing", "tests", "collect"]
    assert calls[0].steps().startswith(f"tests:{90 * MARGIN:.0f},timing:{20 * MARGIN:.0f},collect:")
    assert next(s.weight for s in chosen_steps(calls[0].steps().split(","))) == round(90 * MARGIN)
    lines = describe(calls, left, 15.0, ["python3", "x.py", "--out", "a b"], "files")
    assert f"call 1: python3 x.py --out 'a b' --seconds {calls[0].seconds:.0f} --steps tests:96,timing:21" in lines[3]
    assert lines[-1].endswith("collect: " + f"{left[0].count:,} parts")


def test_too_short_a_visit_has_no_call() -> None:
    calls, left = planned_calls([need("tests", 1, 1.0)], 2.5)
    assert calls == []
    assert [n.step for n in left] == ["tests"]


def test_what_is_done_is_not_planned(tmp_path: Path) -> None:
    chosen = options(tmp_path, apps=("blur", "hist"), sizes=("small",), strategies=("roots", "top5"), samples=100)
    before = {n.step: n for n in needs(chosen, 48)}
    assert before["suite"].count == 2, "modes that measure are timed, not checked"
    assert before["timing"].count == 2 + 2 * chosen.ranked
    assert before["collect"].seconds == pytest.approx(100 / 12)
    assert "peers" not in before
    write_json(chosen.out_path / "state.json", {"steps": {"tests": {"status": "finished"}}})
    write_json(chosen.out_path / "schedules.json", {"H200 132": {
        "blur/paper/roots": {"schedules": ["a"]}, "blur/paper/top5": {"schedules": ["a", "b", "c", "d"]},
        "blur/small/roots": {"schedules": ["a"]}, "blur/paper/beam": {"schedules": ["a"]},
    }})  # fmt: skip
    write_json(chosen.out_path / "results.json", {
        "suite": {"blur/small": {"wrong": {"roots": None}}},
        "timing": {"blur/roots/0": {}, "ceilings": {}},
        "collect": {"p": {"schedules": 3}, "run 1": {"counts": {"ok": 40}, "seconds": 2.0}},
        "tune": {name: {} for name in chosen.tune_apps},
    })  # fmt: skip
    after = {n.step: n for n in needs(replace(chosen, peers="there"), 48)}
    assert "tests" not in after
    assert "tune" not in after
    assert (after["suite"].count, after["timing"].count) == (1, 3)
    assert (after["collect"].count, after["collect"].part_s) == (60, 0.05)
    assert after["peers"].count > 0


def test_files_that_travel_are_added_up(tmp_path: Path) -> None:
    (tmp_path / "h200").mkdir()
    (tmp_path / "h200" / "code.tar.xz").write_bytes(bytes(3 << 20))
    line = carried_line(ROOT, [tmp_path / "h200", tmp_path / "nothing"], 64)
    assert "h200 3.0, nothing 0.0; " in line
    assert line.endswith("of 64 MiB")
    assert "too much" in carried_line(ROOT, [tmp_path / "h200"], 3)


def test_the_command_prints_the_plan_and_runs_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-E", str(ROOT / "scripts/gpu_campaign.py"), "--out", str(tmp_path / "out")]
    more = ["--plan", "30", "--sizes", "small,odd", "--tune-seconds", "90", "--export", "$OUT"]
    done = subprocess.run([*command, *more], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("30 minutes: 3 calls")
    assert f"suite: {len(NAMES) * 2 * 3} schedules" in done.stdout
    options_ = f'--out {tmp_path / "out"} --export "$OUT" --sizes small,odd --tune-seconds 90.0 --seconds 570 --steps'
    assert f"call 1: python3 scripts/gpu_campaign.py {options_} tests:96,kernels:" in done.stdout
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("tests:90,suite", "only some steps have a time"), ("tests:soon", "the step 'tests:soon' has no time"),
        ("tests:-1", "has no time in seconds: write, say, tests:90"), ("nothing:3", "there is no step 'nothing'"),
    ],
)  # fmt: skip
def test_times_of_steps_are_checked(
    steps: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--out", str(tmp_path), "--steps", steps]) == 2
    assert message in capsys.readouterr().err
