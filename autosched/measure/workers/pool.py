"""Processes of this machine: some compile candidates, one for each device measures them."""

from __future__ import annotations

import queue
import tempfile
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path
from typing import Protocol, Self

from autosched.measure.backend import Backend
from autosched.measure.job import Deferred, Failure, Fatal, Job, Prepared, Result, Status, Timing
from autosched.measure.problem import Problem
from autosched.measure.settings import MeasureSettings
from autosched.measure.workers.core_arbiter import CoreArbiter
from autosched.measure.workers.device_queue import DeviceQueue
from autosched.measure.workers.process import WorkerDied, WorkerProcess, WorkerTimedOut
from autosched.measure.workers.service import CompileService
from autosched.measure.workers.task import Compiled, Task, result_of

Event = tuple[Task, Result] | Fatal | BaseException
MOST_DEFERRED = 3
"""How often a candidate lets others go first."""


class Pool(Protocol):
    """Where tasks are done; entered before the first and left after the last.

    Attributes:
        results: What came of each task; an error that ends the run.
    """

    results: queue.SimpleQueue[Event]

    def __enter__(self) -> Self:
        """Start what does them.

        Raises:
            InputError: If there is no device here, or another one than labels say.
            CompileError: If there is no compiler.
        """

    def __exit__(self, *_: object) -> None:
        """End all processes at once; what they were at is lost, what is in ``results`` stays."""

    def drawing(self) -> AbstractContextManager[None]:
        """Return what to hold while a candidate is drawn: no measurement of this machine is then disturbed."""

    def submit(self, task: Task) -> None:
        """Take a task; its result appears in ``results``. Called from one thread."""


class LocalPool:
    """Threads that each feed a process: those that compile share a queue, what they make goes to those that measure.

    Args:
        backend: What to measure on.
        settings: Processes and time limits.

    Attributes:
        results: What came of each task; an error that ends the run.
    """

    def __init__(self, backend: Backend, settings: MeasureSettings) -> None:
        self.results: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._backend = backend
        self._settings = settings
        self._waiting: queue.SimpleQueue[tuple[Task, int] | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._turns = CoreArbiter(apart=backend.needs_quiet, batch=max(settings.window // 2, 1))
        self._worked_out = tempfile.TemporaryDirectory(prefix="autosched-run-", ignore_cleanup_errors=True)
        service = CompileService(backend, Path(self._worked_out.name))
        self._workers = [WorkerProcess(service) for _ in range(settings.compile_processes)]
        self._lanes = [DeviceQueue(bench, settings, self._turns, self._finish) for bench in backend.benches()]
        self._lane_of: dict[Problem, DeviceQueue] = {}
        works: list[Callable[[], None]] = [partial(self._compile, worker) for worker in self._workers]
        works += [lane.run for lane in self._lanes]
        self._threads = [threading.Thread(target=self._guarded, args=(work,), daemon=True) for work in works]

    def __enter__(self) -> Self:
        """Check the machine and start all threads; see `Pool`."""
        self._backend.check_machine()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End all processes at once; what they were at is lost, what is in ``results`` stays."""
        self._stop.set()
        self._turns.stop()
        for worker in self._workers:
            self._waiting.put(None)
            worker.interrupt()
        for lane in self._lanes:
            lane.stop()
        for thread in self._threads:
            thread.join()
        self._worked_out.cleanup()

    def drawing(self) -> AbstractContextManager[None]:
        """Return what keeps measurements away where they use the cores that draw; see `Pool`."""
        return self._turns.working()

    def submit(self, task: Task) -> None:
        """Take a task; its result appears in ``results``. Called from one thread."""
        # All candidates of a problem go to one device, which knows its inputs and its right result.
        self._lane_of.setdefault(task.job.problem, self._lanes[len(self._lane_of) % len(self._lanes)])
        self._turns.expect()
        self._waiting.put((task, 0))

    def _guarded(self, work: Callable[[], None]) -> None:
        """Let the run end with what a thread stumbles over."""
        try:
            work()
        except BaseException as error:
            self.results.put(error)

    def _compile(self, worker: WorkerProcess) -> None:
        """Compile what waits; a candidate of which other processes are compiling a part waits again, while others do.

        Candidates of a problem share kernels, and so processes that compile these would wait for each other.
        """
        with closing(worker):
            while (next_one := self._waiting.get()) is not None and not self._stop.is_set():
                task, deferred = next_one
                with self._turns.compiling():
                    wait = deferred == MOST_DEFERRED or self._waiting.empty()
                    found = self._compiled(worker, task.job, wait)
                    if isinstance(found, Deferred):
                        self._turns.put_back()
                        self._waiting.put((task, deferred + 1))
                    elif isinstance(found, Fatal):
                        self.results.put(found)
                    elif not self._stop.is_set():
                        self._lane_of[task.job.problem].put(task, found)

    def _compiled(self, worker: WorkerProcess, job: Job, wait: bool) -> Prepared | Deferred | Failure | Fatal:
        """Return what the compiler makes of a candidate; after a crash that may not be its fault, in a new process."""
        limit = self._settings.compile_timeout_s
        while True:
            is_fresh = worker.pid is None
            try:
                found: Prepared | Deferred | Failure | Fatal = worker.call("prepare", job, wait, timeout_s=limit)
            except WorkerTimedOut:
                return Failure(Status.COMPILE_TIMEOUT, f"it was not compiled in {limit:g} s; the compiler was killed")
            except WorkerDied as error:
                if is_fresh or self._stop.is_set():
                    return Failure(Status.COMPILE_CRASH, str(error))
            else:
                return found

    def _finish(self, task: Task, compiled: Compiled, found: Timing | Failure) -> None:
        self.results.put((task, result_of(task, self._backend, compiled, found)))
