"""Worker processes that check programs; a hang or crash affects only the worker's own program."""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from fuzzing.check import DIED, HUNG, Failure, Outcome, check_program
from fuzzing.program import Program
from fuzzing.trials import Trial
from fuzzing.witnesses import dirty_workspaces

LIMIT_S = 120.0
"""Processor seconds, of a worker and its compilers, after which a program counts as hanging."""
IDLE = 10
"""Multiple of the limit in wall-clock time after which a program counts as hanging in any case, such as a deadlock."""
ADDRESS_SPACE = 8 << 30
TASKS_A_WORKER = 100
"""Programs per process, as C libraries are never unloaded."""
ENVIRONMENT = {
    "AUTOSCHED_COMPILE_JOBS": "1", "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1",
}  # fmt: skip


@dataclass(frozen=True)
class Task:
    """A program to check.

    Attributes:
        program: The program.
        trials: Its schedules.
        legal: Whether a refusal is a failure.
        key: Identifier for the caller.
    """

    program: Program
    trials: tuple[Trial, ...]
    legal: bool = False
    key: Any = None


Judge = Callable[[Task], Outcome]


def check_task(task: Task) -> Outcome:
    """Return the outcome of a program."""
    return check_program(task.program, task.trials, legal=task.legal)


@dataclass
class Worker:
    """A process and its current task."""

    process: BaseProcess
    connection: Connection
    cache: str
    task: Task | None = None
    begun: float = 0.0
    spent: float = 0.0
    done: int = 0

    def begin(self, task: Task) -> None:
        """Start a task."""
        self.task, self.begun, self.spent = task, time.monotonic(), self._processor_seconds()
        self.connection.send(task)

    def time_left(self, limit_s: float) -> float:
        """Return a lower bound of the seconds until the task counts as hanging; at most 0 if it does."""
        on_the_clock = IDLE * limit_s - (time.monotonic() - self.begun)
        return min(on_the_clock, limit_s - (self._processor_seconds() - self.spent))

    def _processor_seconds(self) -> float:
        """Return the processor seconds of the process and its ended compilers; the clock without /proc."""
        try:
            text = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8")
        except OSError:
            return time.monotonic()
        ticks = text.rpartition(")")[2].split()[11:15]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """End the process and remove its cache."""
        self.process.kill()
        self.process.join()
        self.connection.close()
        shutil.rmtree(self.cache, ignore_errors=True)


@dataclass
class ProgramWorkers:
    """Worker processes that check programs.

    Attributes:
        jobs: Number of processes.
        limit_s: Processor seconds after which a program counts as hanging.
        judge: Function of a worker for each task; defined at module level.
    """

    jobs: int = 1
    limit_s: float = LIMIT_S
    judge: Judge = check_task
    _workers: list[Worker] = field(default_factory=list)

    def __enter__(self) -> ProgramWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()
        self._workers.clear()

    def outcomes(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Outcome, float]]:
        """Yield each task with its outcome and its seconds, in any order."""
        waiting = iter(tasks)
        while True:
            while len(busy := [w for w in self._workers if w.task]) < self.jobs and (task := next(waiting, None)):
                self._idle().begin(task)
            if not busy:
                return
            wait([w.connection for w in busy], timeout=max(0.0, min(w.time_left(self.limit_s) for w in busy)))
            for worker in busy:
                found = self._finished(worker)
                if found is not None:
                    yield found

    def outcome(self, task: Task) -> Outcome:
        """Return the outcome of one task."""
        return next(self.outcomes([task]))[1]

    def _finished(self, worker: Worker) -> tuple[Task, Outcome, float] | None:
        task, seconds = worker.task, time.monotonic() - worker.begun
        assert task is not None
        if worker.connection.poll():
            try:
                outcome: Outcome = worker.connection.recv()
            except EOFError:
                worker.process.join()
                outcome = _lost(DIED, _death(worker.process.exitcode))
        elif worker.time_left(self.limit_s) <= 0.0:
            outcome = _lost(HUNG, f"still running after {self.limit_s:g} processor seconds")
        else:
            return None
        worker.task = None
        worker.done += 1
        if outcome.verdict in (DIED, HUNG) or worker.done >= TASKS_A_WORKER:
            worker.stop()
            self._workers.remove(worker)
        return task, outcome, seconds

    def _idle(self) -> Worker:
        for worker in self._workers:
            if worker.task is None:
                return worker
        ours, theirs = multiprocessing.Pipe()
        cache = tempfile.mkdtemp(prefix="autosched-fuzzing-")
        # OpenMP fails in a fork of a process that has used it.
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=_work, args=(theirs, cache, self.judge), daemon=True)
        process.start()
        theirs.close()
        ours.recv()  # sent after the imports, which do not count as a program's time
        self._workers.append(Worker(process, ours, cache))
        return self._workers[-1]


def _work(connection: Connection, cache: str, judge: Judge) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    os.environ.update(ENVIRONMENT, AUTOSCHED_CACHE_DIR=cache)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, resource.getrlimit(resource.RLIMIT_AS)[1]))
    dirty_workspaces()
    connection.send("ready")
    with suppress(EOFError):
        while True:
            connection.send(judge(connection.recv()))


def _lost(kind: str, message: str) -> Outcome:
    return Outcome(kind, failures=(Failure(kind, message),))


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        return f"the process ended with {signal.Signals(-code).name}"
    return f"the process ended with {code}"
