"""Processes of this machine: several compile candidates, and one per device measures them."""

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
"""Most deferrals of a candidate."""


class Pool(Protocol):
    """Workers for tasks; a context manager that is entered before the first task.

    Attributes:
        results: The result of each task, or an error that ends the run.
    """

    results: queue.SimpleQueue[Event]

    def __enter__(self) -> Self:
        """Start the workers.

        Raises:
            InputError: If there is no device, or another one than the labels.
            CompileError: If there is no compiler.
        """

    def __exit__(self, *_: object) -> None:
        """End all processes at once; tasks in flight are lost, and ``results`` stays."""

    def drawing(self) -> AbstractContextManager[None]:
        """Return a context for drawing a candidate without disturbing a measurement on this machine."""

    def submit(self, task: Task) -> None:
        """Submit a task, whose result appears in ``results``; called from one thread."""


class LocalPool:
    """Threads that each feed a process: compile threads share a queue, and fill the queues of the device threads.

    Args:
        backend: The devices.
        settings: Processes and time limits.

    Attributes:
        results: The result of each task, or an error that ends the run.
    """

    def __init__(self, backend: Backend, settings: MeasureSettings) -> None:
        self.results: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._backend = backend
        self._settings = settings
        self._uncompiled: queue.SimpleQueue[tuple[Task, int] | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._arbiter = CoreArbiter(exclusive=backend.needs_quiet, batch=max(settings.window // 2, 1))
        self._shared_texts = tempfile.TemporaryDirectory(prefix="autosched-run-", ignore_cleanup_errors=True)
        service = CompileService(backend, Path(self._shared_texts.name))
        self._workers = [WorkerProcess(service) for _ in range(settings.compile_processes)]
        devices = backend.device_backends()
        self._queues = [DeviceQueue(device, settings, self._arbiter, self._finish) for device in devices]
        self._queue_of: dict[Problem, DeviceQueue] = {}
        works: list[Callable[[], None]] = [partial(self._compile, worker) for worker in self._workers]
        works += [device_queue.run for device_queue in self._queues]
        self._threads = [threading.Thread(target=self._guarded, args=(work,), daemon=True) for work in works]

    def __enter__(self) -> Self:
        """Check the machine and start all threads; see `Pool`."""
        self._backend.check_machine()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End all processes at once; tasks in flight are lost, and ``results`` stays."""
        self._stop.set()
        self._arbiter.stop()
        for worker in self._workers:
            self._uncompiled.put(None)
            worker.interrupt()
        for device_queue in self._queues:
            device_queue.stop()
        for thread in self._threads:
            thread.join()
        self._shared_texts.cleanup()

    def drawing(self) -> AbstractContextManager[None]:
        """Return a context that excludes measurements on the cores; see `Pool`."""
        return self._arbiter.working()

    def submit(self, task: Task) -> None:
        """Submit a task, whose result appears in ``results``; called from one thread."""
        # All candidates of a problem go to one device, which holds its inputs and trusted result.
        self._queue_of.setdefault(task.job.problem, self._queues[len(self._queue_of) % len(self._queues)])
        self._arbiter.expect()
        self._uncompiled.put((task, 0))

    def _guarded(self, work: Callable[[], None]) -> None:
        """Run a thread's work; an error ends the run."""
        try:
            work()
        except BaseException as error:
            self.results.put(error)

    def _compile(self, worker: WorkerProcess) -> None:
        """Compile queued candidates; defer a candidate if other processes are compiling part of it.

        Candidates of a problem share kernels, so without deferral their processes would wait for each other.
        """
        with closing(worker):
            while (next_one := self._uncompiled.get()) is not None and not self._stop.is_set():
                task, deferred = next_one
                with self._arbiter.compiling():
                    wait = deferred == MOST_DEFERRED or self._uncompiled.empty()
                    outcome = self._compiled(worker, task.job, wait)
                    if isinstance(outcome, Deferred):
                        self._arbiter.put_back()
                        self._uncompiled.put((task, deferred + 1))
                    elif isinstance(outcome, Fatal):
                        self.results.put(outcome)
                    elif not self._stop.is_set():
                        self._queue_of[task.job.problem].put(task, outcome)

    def _compiled(self, worker: WorkerProcess, job: Job, wait: bool) -> Prepared | Deferred | Failure | Fatal:
        """Compile a candidate; retry in a new process after a crash that an earlier candidate may have caused."""
        limit = self._settings.compile_timeout_s
        while True:
            is_fresh = worker.pid is None
            try:
                outcome: Prepared | Deferred | Failure | Fatal = worker.call("prepare", job, wait, timeout_s=limit)
            except WorkerTimedOut:
                return Failure(Status.COMPILE_TIMEOUT, f"it was not compiled in {limit:g} s; the compiler was killed")
            except WorkerDied as error:
                if is_fresh or self._stop.is_set():
                    return Failure(Status.COMPILE_CRASH, str(error))
            else:
                return outcome

    def _finish(self, task: Task, compiled: Compiled, outcome: Timing | Failure) -> None:
        self.results.put((task, result_of(task, self._backend, compiled, outcome)))
