"""Candidates of many problems, drawn in processes of their own: on many cores one process would be too slow."""

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
        note: Why there are not as many as asked for, if drawing failed.
    """

    schedules: tuple[tuple[str, str], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class CandidateWorker:
    """Draws schedules of problems.

    Attributes:
        target: What for.
        mix: How many of each kind.
        seed: Source of randomness.
        cost: What the searches minimise, by name, or a file of weights (`search.modes.models`).
        most_seconds: Time for one problem; searches are cut short when it is over.
    """

    target: Target
    mix: CandidateMix
    seed: int = 0
    cost: str = ANALYTICAL
    most_seconds: float = 60.0

    @reduced_gc()
    def draw(self, problem: Problem) -> GeneratedCandidates:
        """Return the schedules of a problem."""
        found: list[tuple[str, str]] = []
        deadline = time.perf_counter() + self.most_seconds
        try:
            bound = problem.bind()
            model = cost_model(self.cost, self.target)
            for kind, schedule in CandidateGenerator(bound, self.target, self.seed, model, deadline).draw(self.mix):
                found.append((kind, schedule_text(bound, schedule)))
        except AutoschedError as error:
            return GeneratedCandidates(tuple(found), str(error))
        pipeline_memo(bound, PLANS).clear()  # no more use, and the garbage collector would traverse all of it
        return GeneratedCandidates(tuple(found))


def generate_in_processes(
    drawer: CandidateWorker, problems: Iterable[Problem], *, processes: int, ahead: int, deadline: float | None = None
) -> Generator[tuple[Problem, GeneratedCandidates], None, None]:
    """Yield problems with their schedules, in order.

    A process that dies or takes much too long costs its problem's schedules and nothing else.

    Args:
        drawer: Draws them.
        problems: Taken as there is room for them.
        processes: How many draw at a time.
        ahead: Problems that are drawn, or being drawn, before they are asked for; with 0, nothing is drawn in between.
        deadline: Time by `time.monotonic` at which to end, or None.

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
            found: GeneratedCandidates = worker.call("draw", problem, timeout_s=4 * drawer.most_seconds)
        except (WorkerDied, WorkerTimedOut) as error:
            return GeneratedCandidates((), f"the process that drew its schedules is lost: {error}")
        finally:
            idle.put(worker)
        return found

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
