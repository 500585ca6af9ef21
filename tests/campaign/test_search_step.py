"""Schedules of strategies and of the modes of `autosched.schedule`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from campaign.files import write_json
from campaign.problems import apps_by_need, problem_of
from campaign.search import MODES, check_strategies, schedules_for
from campaign.timing import wanted_parts

from autosched.errors import InputError
from autosched.measure.job import Job
from autosched.measure.problem import Problem
from autosched.schedule.legality.validate import violations
from autosched.search.tune.cost_models import ANALYTICAL
from autosched.search.tune.one_shot import find_schedule, rank_schedules
from autosched.search.tune.request import Request
from autosched.target import get_target
from tests.campaign.tiny_campaign import context, options, run

H200 = get_target("h200")


def test_modes_give_the_schedules_that_they_take_or_measure(tmp_path: Path) -> None:
    chosen = options(tmp_path, strategies=("roots", "one-shot", "top5"), search_seconds=8.0)
    outcome, _ = run("search", chosen, seconds=200.0)
    assert outcome.finished, outcome.message
    assert outcome.message.startswith("5 of 5 searches"), "top-5 modes are searched at the papers' size only"
    found = schedules_for(context("timing", chosen), ("paper",))
    assert len(found["blur/paper/one-shot"]["schedules"]) == 1
    several = found["blur/paper/top5"]["schedules"]
    assert MODES["top5"] <= len(set(several)) == len(several)
    problem = Problem.parse(found["blur/paper/top5"]["problem"])
    for text in several:
        assert not violations(problem.bind(), Job(problem, text, H200).read_schedule(), H200)
    wanted = dict(wanted_parts(context("timing", chosen)))
    assert [name for name, timed in wanted.items() if timed.is_first] == ["blur/roots/0", "blur/one-shot/0"]
    assert len(wanted) == 2 + len(several)


def test_the_one_shot_mode_is_that_of_the_library() -> None:
    bound = problem_of("unsharp", "small").bind()
    request = Request(cost=ANALYTICAL, reuse=False)
    ranked = rank_schedules(bound, H200, request).ranked
    assert [r.schedule for r in ranked] == [find_schedule(bound, H200, request).schedule]
    with pytest.raises(InputError, match="leave the strategy out"):
        rank_schedules(bound, H200, Request(strategy="roots"))


def test_modes_with_the_learned_model_need_weights() -> None:
    check_strategies(["learned", "learned-top5"], "some.safetensors")
    for name in ("learned", "learned-top5"):
        with pytest.raises(InputError, match=f"the strategy '{name}' needs a file of weights"):
            check_strategies([name], "")


def test_other_weights_are_searched_with_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    def parts(_: object, __: str, todo: Any, **___: object) -> Any:
        for name, wanted in todo:
            searched.append(name)
            yield name, {"problem": wanted.problem, "weights": wanted.weights, "schedules": ["a"]}

    monkeypatch.setattr("campaign.search.do_parts", parts)
    weights = tmp_path / "w.safetensors"
    chosen = options(tmp_path, strategies=("roots", "learned"), weights=str(weights))
    for content, count in ((b"1", 2), (b"1", 0), (b"2", 1)):
        searched.clear()
        weights.write_bytes(content)
        schedules_for(context("search", chosen), ("paper",))
        assert len(searched) == count, content
    assert searched == ["blur/paper/learned"]


def test_apps_without_published_times_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_json(tmp_path / "docs/results/h200/results.json", {"timing": {"blur/roots/0": {}, "floor/hist": {}}})
    monkeypatch.setattr("campaign.problems.ROOT", tmp_path)
    chosen = options(tmp_path, apps=("blur", "harris", "hist"))
    assert apps_by_need(chosen) == ("harris", "hist", "blur")
    assert apps_by_need(replace(chosen, device="h100")) == chosen.apps
