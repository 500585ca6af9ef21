"""Parallel generation of many problems' candidates, in worker processes."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from autosched.analysis.pipeline_memo import pipeline_memo
from autosched.errors import AutoschedError
from autosched.measure.compile.content_keys import schedule_text
from autosched.measure.problem import Problem
from autosched.measure.workers.process import WorkerDied, WorkerProcess, WorkerTimedOut
from autosched.schedule.kernel.plan_cache import PLANS
from autosched.search.datasets.candidate_mix import CandidateGenerator, CandidateMix
from autosched.search.gc_pause import reduced_gc
from autosched.search.tune.cost_models import ANALYTICAL, cost_model
from autosched.target import Target


@dataclass(frozen=True, slots=True)
class GeneratedCandidates:
    """Schedules of a problem.

    Attributes:
        schedules: Kind and JSON of each, the baseline first.
        note: Error that ended drawing early, or empty.
    """

    schedules: tuple[tuple[str, str], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class CandidateWorker:
    """Draws schedules of problems.

    Attributes:
        target: The device to schedule for.
        mix: Number of schedules of each kind.
        seed: Source of randomness.
        cost: Name of the searches' cost model, or a file of weights (`autosched.search.tune.cost_models`).
        most_seconds: Time limit for one problem, at which its searches end.
    """

    target: Target
    mix: CandidateMix
    seed: int = 0
    cost: str = ANALYTICAL
    most_seconds: float = 60.0

    @reduced_gc()
    def draw(self, problem: Problem) -> GeneratedCandidates:
        """Return the schedules of a problem."""
        schedules: list[tuple[str, str]] = []
        deadline = time.perf_counter() + self.most_seconds
        try:
            bound = problem.bind()
            model = cost_model(self.cost, self.target)
            for kind, schedule in CandidateGenerator(bound, self.target, self.seed, model, deadline).draw(self.mix):
                schedules.append((kind, schedule_text(bound, schedule)))
        except AutoschedError as error:
            return GeneratedCandidates(tuple(schedules), str(error))
        pipeline_memo(bound, PLANS).clear()  # no more use, and the garbage collector would traverse all of it
        return GeneratedCandidates(tuple(schedules))


def generate_in_processes(
    drawer: CandidateWorker, problems: Iterable[Problem], *, processes: int, ahead: int, deadline: float | None = None
) -> Generator[tuple[Problem, GeneratedCandidates], None, None]:
    """Yield problems with their schedules, in order.

    The failure or timeout of a process affects the schedules of its current problem only.

    Args:
        drawer: The worker, copied to each process.
        problems: Problems, consumed lazily.
        processes: Number of processes.
        ahead: Number of problems generated in advance; with 0, no process runs while the caller has control.
        deadline: End by `time.monotonic`, or None.

    Raises:
        MeasureError: If no process can be started.
    """
    workers = [WorkerProcess(drawer) for _ in range(processes)]
    idle: queue.SimpleQueue[WorkerProcess] = queue.SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def draw(problem: Problem) -> GeneratedCandidates:
        worker = idle.get()
        try:
            candidates: GeneratedCandidates = worker.call("draw", problem, timeout_s=4 * drawer.most_seconds)
        except (WorkerDied, WorkerTimedOut) as error:
            return GeneratedCandidates((), f"the process that drew its schedules is lost: {error}")
        finally:
            idle.put(worker)
        return candidates

    todo = iter(problems)
    pending: deque[tuple[Problem, Future[GeneratedCandidates]]] = deque()
    threads = ThreadPoolExecutor(processes)
    try:
        while True:
            pending.extend((p, threads.submit(draw, p)) for p in islice(todo, ahead + 1 - len(pending)))
            if not pending:
                return
            problem, future = pending.popleft()
            try:
                drawn = future.result(None if deadline is None else max(deadline - time.monotonic(), 0.0))
            except TimeoutError:
                return
            yield problem, drawn
    finally:
        for worker in workers:
            worker.interrupt()
        threads.shutdown(cancel_futures=True)
        for worker in workers:
            worker.close()
