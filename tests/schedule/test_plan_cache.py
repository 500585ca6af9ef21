"""The cache of plans and reasons, which is part of the bound pipeline."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_memo import pipeline_memo
from autosched.apps import get_app
from autosched.errors import ScheduleError
from autosched.schedule.kernel import plan_cache
from autosched.schedule.kernel.plan_cache import cached_plan
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import Kernel
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target

H200 = get_target("h200")


@pytest.fixture
def bound() -> BoundPipeline:
    app = get_app("unsharp")
    return bind(app.build(), app.shapes(app.small_sizes), {})


@pytest.fixture
def kernels(bound: BoundPipeline) -> tuple[Kernel, ...]:
    return schedule_roots(bound, H200).kernels


def test_a_kernel_is_planned_once(bound: BoundPipeline, kernels: tuple[Kernel, ...]) -> None:
    plan = plan_kernel(bound, kernels[0])
    assert plan_kernel(bound, kernels[0]) is plan
    assert plan_kernel(bound, kernels[1]) is not plan
    assert plan_kernel(bound, kernels[0], {plan.grid[0].name: (0, 0)}) is not plan


def test_each_pipeline_has_its_own_cache(bound: BoundPipeline, kernels: tuple[Kernel, ...]) -> None:
    plan = plan_kernel(bound, kernels[0])
    other = replace(bound)
    assert not pipeline_memo(other, plan_cache.PLANS) and plan_kernel(other, kernels[0]) is not plan


def test_violations_depend_on_the_target(bound: BoundPipeline, kernels: tuple[Kernel, ...]) -> None:
    narrow = replace(H200, name="narrow", max_threads_per_block=32)
    assert not kernel_violations(bound, kernels[0], H200)
    assert "threads per block exceed the limit of 32 on narrow" in kernel_violations(bound, kernels[0], narrow)[0]
    reasons = kernel_violations(bound, kernels[0], narrow)
    reasons.clear()  # the caller's own list
    assert kernel_violations(bound, kernels[0], narrow)


def test_recently_used_facts_stay_in_the_cache(
    bound: BoundPipeline, kernels: tuple[Kernel, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_cache, "CACHE_CAPACITY", 2)
    calls: list[int] = []

    def fact(name: int) -> int:
        return cached_plan(bound, kernels[0], name, lambda: calls.append(name) or -name)  # type: ignore[func-returns-value]

    assert [fact(n) for n in (1, 2, 1, 3, 1)] == [-1, -2, -1, -3, -1]
    assert calls == [1, 2, 3]
    assert fact(2) == -2 and calls == [1, 2, 3, 2]


def test_errors_are_not_cached(bound: BoundPipeline, kernels: tuple[Kernel, ...]) -> None:
    def fail() -> None:
        raise ScheduleError("not now")

    with pytest.raises(ScheduleError, match="not now"):
        cached_plan(bound, kernels[0], "any", fail)
    assert cached_plan(bound, kernels[0], "any", lambda: 1) == 1
