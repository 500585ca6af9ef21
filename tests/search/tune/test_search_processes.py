"""Searches in several processes: the same results for any number, errors, lost processes, interrupts."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import torch

import autosched
from autosched.apps import get_app
from autosched.errors import InputError
from autosched.model.train.torch_threads import torch_threads
from autosched.search.tune import greedy_samples, search_processes
from autosched.search.tune.search_processes import SteppedSearch, run_stepped

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forks, on Linux only")


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    """Other tests of this process may have children that live longer."""
    before = children()
    yield
    assert children() <= before


def chain(number: int, pids: bool = False) -> SteppedSearch[tuple[int, float, float, int]]:
    """Return the least costs after two steps; the least costs are those of the first and of the last search."""
    first = yield 1.0 + number
    second = yield 10.0 - number
    return number, first, second, os.getpid() if pids else 0


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 8])
def test_every_search_gets_the_least_cost_of_all(processes: int) -> None:
    found = run_stepped([partial(chain, k) for k in range(5)], processes)
    assert found == [(k, 1.0, 6.0, 0) for k in range(5)]


def test_searches_are_divided_among_processes() -> None:
    pids = [pid for *_, pid in run_stepped([partial(chain, k, pids=True) for k in range(4)], 2)]
    assert pids[0] == pids[2] == os.getpid()
    assert pids[1] == pids[3] != os.getpid()


class StepError(Exception):
    """An error of a search."""


def failing(number: int, step: int) -> SteppedSearch[int]:
    for k in range(3):
        if (number, k) == (1, step):
            raise StepError(step)
        yield float(k)
    return number


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("step", [0, 1, 2])
def test_errors_have_their_type_and_traceback(step: int, processes: int) -> None:
    with pytest.raises(StepError) as caught:
        run_stepped([partial(failing, k, step) for k in range(3)], processes)
    assert caught.value.args == (step,)
    assert caught.traceback[-1].name == "failing"


def killed(parent: int, step: int, number: int) -> SteppedSearch[tuple[int, float]]:
    least = 0.0
    for k in range(3):
        if os.getpid() != parent and k == step:
            os.kill(os.getpid(), signal.SIGKILL)
        least = yield 2.0 * number + k
    if os.getpid() != parent and step == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number, least


def unpicklable(parent: int, step: int, number: int) -> SteppedSearch[tuple[int, float] | Callable[[], None]]:
    found = yield from killed(parent, -1, number)
    return found if os.getpid() == parent else lambda: None


@pytest.mark.parametrize(("search", "step"), [(killed, 0), (killed, 1), (killed, 2), (killed, 3), (unpicklable, 0)])
def test_searches_of_a_lost_process_are_repeated(search: Callable[..., SteppedSearch[object]], step: int) -> None:
    found = run_stepped([partial(search, os.getpid(), step, k) for k in range(4)], 3)
    assert found == [(k, 2.0) for k in range(4)]


def test_an_interrupt_ends_all_processes() -> None:
    def interrupted(parent: int) -> SteppedSearch[None]:
        if os.getpid() == parent:
            raise KeyboardInterrupt
        time.sleep(60)
        yield 0.0

    started = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        run_stepped([partial(interrupted, os.getpid())] * 3, 3)
    assert time.perf_counter() - started < 30


def test_processes_compute_after_a_parallel_product_of_this_one() -> None:
    """OpenMP's threads do not exist in a fork: a team of several would wait for them for ever."""
    with torch_threads(4):
        a = torch.rand(600, 600) @ torch.rand(600, 600)

    def total() -> SteppedSearch[float]:
        with torch_threads(1):
            yield float((a @ a).sum())
            return float((a @ a).sum())

    assert len(set(run_stepped([total] * 3, 3))) == 1


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """Return the searches of other processes; short ones have some, too."""
    monkeypatch.setattr(greedy_samples, "LEAST_KERNELS", {"cuda": 0, "cpu": 0})
    numbers: list[object] = []
    fork = search_processes._fork

    def spy(searches: list[Callable[[], SteppedSearch[object]]], mine: range) -> object:
        numbers.append(mine)
        return fork(searches, mine)

    monkeypatch.setattr(search_processes, "_fork", spy)
    yield numbers


@pytest.mark.parametrize(("app", "target"), [("box", "h200"), ("softmax", "h200"), ("standardize", "cpu")])
def test_any_number_of_workers_finds_the_same_schedule(app: str, target: str, forks: list[object]) -> None:
    a = get_app(app)
    pipeline, params = a.configure({})
    found = []
    for workers in (1, 2, 4):
        forks.clear()
        s = autosched.schedule(pipeline, a.shapes(a.small_sizes), target, params, workers=workers, reuse=False)
        assert s.search_result is not None and s.search_result.samples > 1
        assert len(forks) == min(workers, s.search_result.samples) - 1  # one for each rewrite
        ranked = [(r.schedule, r.seconds) for r in s.search_result.ranked]
        found.append((s.schedule, s.provenance.predicted_s, ranked, s.search_result.counts.pruned))
    assert found[0] == found[1] == found[2]


def test_short_searches_have_no_workers(forks: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greedy_samples, "LEAST_KERNELS", {"cuda": 10**6, "cpu": 10**6})
    a = get_app("box")
    autosched.schedule(a.build(), a.shapes(a.small_sizes), "h200", workers=4, reuse=False)
    assert not forks


def test_number_of_workers_is_checked() -> None:
    a = get_app("blur")
    with pytest.raises(InputError, match="workers is 0: give a whole number from 1 to 1024"):
        autosched.schedule(a.build(), a.shapes(), workers=0)
