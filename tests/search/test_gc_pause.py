"""Searches raise the thresholds of Python's garbage collector while they run."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Iterator

import pytest

from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.search import gc_pause
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.gc_pause import THRESHOLDS, reduced_gc
from autosched.search.strategies.protocol import Beam
from autosched.search.tune.greedy_samples import draw_samples, samplers_of
from autosched.target import get_target

USUAL = (700, 10, 10)


@pytest.fixture(autouse=True)
def usual_thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*USUAL)
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize("how", ["one-shot", "samples"])
def test_search_raises_gc_thresholds_and_restores_them(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = get_app("blur")
    bound = bind(app.build(), app.shapes(app.small_sizes), {})
    target = get_target("h200")
    model = analytical_model(target)
    seen: set[tuple[int, int, int]] = set()
    cost = type(model).cost

    def watched(self: object, *args: object) -> object:
        seen.add(gc.get_threshold())
        return cost(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(type(model), "cost", watched)
    if how == "one-shot":
        Beam().search(bound, target, cost=model)
    else:
        draw_samples(samplers_of(bound, target, model), samples=2)
    assert seen == {THRESHOLDS}
    assert gc.get_threshold() == USUAL


def test_last_concurrent_search_restores_thresholds() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def other() -> None:
        with reduced_gc():
            begun.set()
            may_end.wait(60)

    thread = threading.Thread(target=other)
    with reduced_gc():
        thread.start()
        assert begun.wait(60)
    assert gc.get_threshold() == THRESHOLDS
    may_end.set()
    thread.join(60)
    assert gc.get_threshold() == USUAL


def test_error_restores_thresholds() -> None:
    with pytest.raises(ValueError, match="any"), reduced_gc():
        raise ValueError("any")
    assert gc.get_threshold() == USUAL


@pytest.mark.parametrize(("before", "during"), [((0, 10, 10), (0, 10, 10)), ((90_000, 5, 5), (90_000, 20, 100))])
def test_higher_thresholds_are_kept(before: tuple[int, int, int], during: tuple[int, int, int]) -> None:
    gc.set_threshold(*before)
    with reduced_gc():
        assert gc.get_threshold() == during
    assert gc.get_threshold() == before


def test_objects_of_a_search_are_not_scanned_at_its_end() -> None:
    with reduced_gc():
        gc.collect()
        kept = [[i] for i in range(5_000)]  # the former thresholds would have the collector look at these
        before = [s["collections"] for s in gc.get_stats()]
    assert [s["collections"] for s in gc.get_stats()] == before
    assert gc.get_freeze_count() == 0 and len(kept) == 5_000


class _Cycle:
    def __init__(self) -> None:
        self.me = self


def test_garbage_of_searches_is_collected_by_a_later_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc_pause, "COLLECT_AFTER_S", 0.05)
    monkeypatch.setattr(gc_pause, "_RUNNING", gc_pause._Running())
    left: list[weakref.ref[_Cycle]] = []
    deadline = time.monotonic() + 60
    while not left or (all(cycle() is not None for cycle in left) and time.monotonic() < deadline):
        with reduced_gc():
            left.append(weakref.ref(_Cycle()))
            time.sleep(0.01)
    assert len(left) < 100
    assert left[0]() is None


def test_disabled_collector_stays_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc_pause, "COLLECT_AFTER_S", 0.0)
    gc.disable()
    try:
        with reduced_gc():
            left = weakref.ref(_Cycle())
        with reduced_gc():
            pass
        assert left() is not None
    finally:
        gc.enable()


def test_frozen_objects_stay_frozen() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with reduced_gc():
            pass
        assert gc.get_freeze_count() > frozen // 2 > 0  # some may have died
    finally:
        gc.unfreeze()
