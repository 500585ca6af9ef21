"""Schedules of a pipeline to compare predictions on: compiled calls of the baseline, searched and random ones."""

from __future__ import annotations

import itertools
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

import autosched
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import AutoschedError
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.beam.random_states import RandomStates
from autosched.search.cost.cpu.analytical import CpuModel
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import SearchSettings
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import Target
from benchmarks.prediction_cases import PredictionCase

SLOWEST = 10.0
"""Random schedules are this many times as slow as the fastest one at most."""
DRAWS, DRAWING_S, COMPILING_S = 60, 240.0, 120.0
"""Most random schedules that are tried for a pipeline, the seconds after which no more are drawn, and the longest time
of compiling one.
"""

Call = Callable[[], object]


def clock_of_calls() -> Callable[[], float]:
    """Return the clock of calls: the thread's processor time if kernels have one thread."""
    return time.thread_time if os.environ.get("OMP_NUM_THREADS") == "1" else time.perf_counter


class TimedCandidates:
    """Compiles and calls the schedules of a pipeline.

    Args:
        case: The pipeline with its inputs.
        target: The processor.
    """

    def __init__(self, case: PredictionCase, target: Target) -> None:
        self.case, self.target = case, target
        self.bound: BoundPipeline = bind(
            case.pipeline, {name: a.shape for name, a in case.inputs.items()}, dict(case.params)
        )
        self._arguments = {**case.inputs, **case.params}
        self.clock = clock_of_calls()
        if "torch" in sys.modules:  # imported by a case; its number of OpenMP threads is that of every library
            sys.modules["torch"].set_num_threads(target.multiprocessors)

    def scheduled(self, schedule: Schedule) -> ScheduledPipeline:
        """Return the pipeline with a schedule."""
        return ScheduledPipeline(self.bound, schedule, self.target, dict(self.case.params))

    def compiled(self, schedules: Sequence[Schedule]) -> Iterator[tuple[Schedule, Call]]:
        """Yield the schedules that compile in time, with a function that calls the kernel."""

        def compile_one(schedule: Schedule) -> Call:
            return partial(self.scheduled(schedule).compile("cpu"), self._arguments)

        pool = ThreadPoolExecutor(2)
        futures = [(s, pool.submit(compile_one, s)) for s in schedules]
        for schedule, future in futures:
            try:
                yield schedule, future.result(COMPILING_S)
            except (AutoschedError, TimeoutError) as error:
                print(f"  left out: {type(error).__name__}", file=sys.stderr)
        pool.shutdown(wait=False, cancel_futures=True)

    def seconds(self, call: Call) -> float:
        """Return the seconds of one call."""
        started = self.clock()
        call()
        return self.clock() - started


def searched_schedules(timed: TimedCandidates, count: int) -> list[Schedule]:
    """Return the best schedules of the default search, first the one that it returns."""
    case = timed.case
    answer = autosched.schedule(
        case.pipeline, inputs=case.inputs, params=dict(case.params), target=timed.target, reuse=False
    )
    ranked = answer.search_result.ranked if answer.search_result else ()
    return list(dict.fromkeys([answer.schedule, *(r.schedule for r in ranked)]))[:count]


def random_schedules(timed: TimedCandidates, seed: int) -> Iterator[Schedule]:
    """Yield random legal schedules: alternately uniform ones, and states of the search space."""
    evaluator = KernelEvaluator(timed.bound, timed.target, CpuModel(timed.target), SearchSettings())
    states = RandomStates(evaluator, varied=False, enumerator=OptionEnumerator(evaluator))
    rng = np.random.default_rng([seed, 2])
    while True:
        yield sample_schedule(timed.bound, timed.target, rng)
        drawn = states.draw_legal(rng)
        if drawn is not None:
            yield drawn[1]


def candidates(timed: TimedCandidates, searched: int, drawn: int, seed: int) -> list[tuple[str, Schedule, Call]]:
    """Return the schedules to compare, with their kinds and compiled calls."""
    best_ones = searched_schedules(timed, searched)
    kinds = dict.fromkeys(best_ones, "search")  # first, so that its result is the first of this kind
    kinds.setdefault(schedule_roots(timed.bound, timed.target), "roots")
    chosen = [(kinds[s], s, call) for s, call in timed.compiled(list(kinds))]
    best = min(_warm_seconds(timed, call) for _, _, call in chosen)
    deadline = time.perf_counter() + DRAWING_S
    accepted: list[tuple[str, Schedule, Call]] = []
    seen = set(kinds)
    source = random_schedules(timed, seed)
    for _ in range(DRAWS // 4):
        if len(accepted) >= drawn or time.perf_counter() > deadline:
            break
        fresh = [s for s in dict.fromkeys(itertools.islice(source, 4)) if s not in seen]
        seen.update(fresh)
        for schedule, call in timed.compiled(fresh):
            seconds = _warm_seconds(timed, call, SLOWEST * best)
            best = min(best, seconds)
            if seconds <= SLOWEST * best:
                accepted.append(("random", schedule, call))
    return chosen + accepted[:drawn]


def _warm_seconds(timed: TimedCandidates, call: Call, limit: float = math.inf) -> float:
    first = timed.seconds(call)  # also loads code and maps pages
    return first if first > 2 * limit else min(first, timed.seconds(call))
