"""Repair of spilling kernels with mainloops and sliding windows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lower.program import lower
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Kernel, LoopKind, Schedule
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.datasets.mutations import Mutator
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.mainloop.mainloop_search import MainloopSearch
from autosched.search.refine.mainloop.step_search import TransferMode
from autosched.search.refine.sliding_window.sliding_search import SlidingWindowSearch
from autosched.search.results import RankedSchedule
from autosched.search.settings import SearchSettings
from autosched.search.tune import spill_repair
from autosched.search.tune.autotune.batches import predicted_seconds
from autosched.search.tune.spill_filter import SpillTable
from autosched.search.tune.spill_repair import with_repaired
from autosched.search.tune.step_repair import lighter_steps
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree
from tests.schedule.mainloop_cases import product
from tests.search.test_sliding_search import sweeps
from tests.search.test_step_mutations import with_steps

H200 = get_target("h200")
MODEL = AnalyticalModel(H200)


def ranked(
    bound: BoundPipeline, search: type[MainloopSearch | SlidingWindowSearch], threads: int, points: int
) -> RankedSchedule:
    """Return a schedule with a kernel with steps above a number of threads or of points, as a search ranks it."""
    evaluator = KernelEvaluator(bound, H200, MODEL, SearchSettings())
    mutator, rng = Mutator(evaluator, steps=True), np.random.default_rng(0)
    schedule: Schedule | None = with_steps(bound, search)
    for _ in range(200):
        assert schedule is not None
        sizes = [size_of(k) for k in schedule.kernels if k.mainloop_at is not None]
        if any(t > threads or p > points for t, p in sizes):
            seconds = predicted_seconds(evaluator, schedule)
            assert seconds is not None
            return RankedSchedule(schedule, seconds, None, evaluator)
        schedule = mutator.mutated(schedule if sizes else with_steps(bound, search), rng)
    raise AssertionError("no kernel is that large")


def size_of(kernel: Kernel) -> tuple[int, int]:
    """Return threads of a block, and points of the first root in a thread in one step."""
    root, at = kernel.roots[0].tiling, kernel.mainloop_at
    assert at is not None
    loops = root.loops[at.depth :] if kernel.is_sliding_window else root.loops
    threads, points = (
        math.prod(p.extent for p in loops if p.kind is kind) for kind in (LoopKind.THREAD, LoopKind.SERIAL)
    )
    return threads, points


def pretend(monkeypatch: pytest.MonkeyPatch, threads: int, points: int) -> None:
    """Make kernels with steps spill that have more threads in a block or more points in a thread."""

    def of(_: SpillTable, schedule: Schedule) -> tuple[int, ...]:
        sizes = [size_of(k) if k.mainloop_at is not None else (0, 0) for k in schedule.kernels]
        return tuple(max(t - threads, 0) + max(p - points, 0) for t, p in sizes)

    monkeypatch.setattr(SpillTable, "of", of)
    monkeypatch.setattr(spill_repair, "compiler_problem", lambda _: "")


@pytest.mark.parametrize(
    ("bound", "search", "threads", "points"),
    [
        (product(1024, 1024, 32), MainloopSearch, 1024, 8),
        (product(1024, 1024, 32), MainloopSearch, 128, 64),
        (sweeps(), SlidingWindowSearch, 1024, 4),
        (sweeps(), SlidingWindowSearch, 128, 64),
    ],
    ids=["mainloop-points", "mainloop-threads", "window-points", "window-threads"],
)
def test_kernels_with_steps_are_repaired(
    bound: BoundPipeline, search: type[MainloopSearch | SlidingWindowSearch], threads: int, points: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    best = ranked(bound, search, threads, points)
    pretend(monkeypatch, threads, points)
    table = SpillTable(bound, H200)
    assert sum(table.of(best.schedule))
    (repaired,) = [r for r in with_repaired([best], table) if r is not best]
    assert not sum(table.of(repaired.schedule)) and not violations(bound, repaired.schedule, H200)
    kinds = [[k.is_sliding_window for k in r.schedule.kernels if k.mainloop_at is not None] for r in (best, repaired)]
    assert kinds[0] == kinds[1] == [search is SlidingWindowSearch]
    assert best.evaluator is not None
    assert predicted_seconds(best.evaluator, repaired.schedule) == pytest.approx(repaired.seconds, rel=1e-3)
    assert_backends_agree(bound, lower(bound, repaired.schedule), emulate=points == 4)


def test_a_single_buffer_is_tried_where_loads_wait_in_registers() -> None:
    bound = product(256, 256, 64)
    best = ranked(bound, MainloopSearch, 0, 0)
    (kernel,) = best.schedule.kernels
    assert best.evaluator is not None
    double, single = TransferMode.DOUBLE_BUFFER, TransferMode.SINGLE_BUFFER
    for mode, tried in ((double, {double, single}), (single, {single})):
        variants = lighter_steps(best.evaluator, mode.applied(kernel))
        assert {TransferMode.of(variant) for variant, _ in variants} == tried
