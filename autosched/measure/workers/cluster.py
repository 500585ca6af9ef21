"""Measurement on many machines with Ray, each of which runs a local pool.

An optional extra (``pip install 'autosched[ray]'``): on one machine `autosched.measure.workers.pool.LocalPool` does the
same without Ray. The tasks of a lost machine are given to another one.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from autosched.errors import AutoschedError, InputError, MeasureError
from autosched.measure.backend import Backend
from autosched.measure.job import Fatal
from autosched.measure.problem import Problem
from autosched.measure.settings import MeasureSettings
from autosched.measure.workers.pool import Event, LocalPool
from autosched.measure.workers.task import Task

_WAIT_S = 1.0
_START_S = 300.0


class Machine:
    """One machine of the cluster; becomes a Ray actor.

    Args:
        backend: The device.
        settings: Processes and time limits of this machine.
    """

    def __init__(self, backend: Backend, settings: MeasureSettings) -> None:
        self._pool = LocalPool(backend, settings)

    def start(self) -> None:
        """Start the processes.

        Raises:
            InputError: If the machine has another device than the labels.
            CompileError: If it has no compiler.
        """
        self._pool.__enter__()

    def submit(self, task: Task) -> None:
        """Submit a task."""
        self._pool.submit(task)

    def next(self) -> Event | None:
        """Return the next result, or None after a time limit."""
        try:
            result = self._pool.results.get(timeout=_WAIT_S)
        except queue.Empty:
            return None
        return Fatal(str(result)) if isinstance(result, BaseException) else result

    def close(self) -> None:
        """End all processes."""
        self._pool.__exit__()


@dataclass
class _Link:
    """Connection of this program to a machine.

    Attributes:
        actor: The machine.
        tasks: Submitted tasks without a result.
        lost: Whether the machine is lost.
    """

    actor: Any
    tasks: list[Task] = field(default_factory=list)
    lost: bool = False


class RayPool:
    """Pool of the machines of a Ray cluster; see `autosched.measure.workers.pool.Pool`.

    Args:
        backend: The device, which all machines must have.
        settings: Processes and time limits of each machine.
        machines: Number of machines.
        resources: Ray resources of each machine: ``num_cpus``, ``num_gpus``, ``resources``.
        address: Address of the cluster; when left out, the connected one, or a new one on this machine.

    Raises:
        MeasureError: If Ray is not installed, or the machines are not available.
        InputError: If a machine has another device.
    """

    def __init__(
        self,
        backend: Backend,
        settings: MeasureSettings,
        *,
        machines: int,
        resources: Mapping[str, Any] | None = None,
        address: str | None = None,
    ) -> None:
        if machines < 1:
            raise InputError(f"machines is {machines}: give at least 1")
        self.results: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._ray = _load_ray()
        if not self._ray.is_initialized():
            self._ray.init(address=address, log_to_driver=False)
        options = {"num_cpus": settings.compile_processes, **(resources or {})}
        remote = self._ray.remote(Machine).options(max_concurrency=3, scheduling_strategy="SPREAD", **options)
        self._links = [_Link(remote.remote(backend, settings)) for _ in range(machines)]
        self._link_of: dict[Problem, _Link] = {}
        self._baseline_of: dict[Problem, Task] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=partial(self._take, link), daemon=True) for link in self._links]

    def __enter__(self) -> Self:
        started = [link.actor.start.remote() for link in self._links]
        try:
            self._ray.get(started, timeout=_START_S)
        except self._ray.exceptions.GetTimeoutError as error:
            self._end()
            raise MeasureError(
                f"no {len(self._links)} machines of the cluster in {_START_S:g} s: request fewer or smaller ones"
            ) from error
        except self._ray.exceptions.RayError as error:
            self._end()
            raise _cause(error) from error
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End all machines; tasks in flight are lost, and ``results`` stays."""
        self._stop.set()
        self._end()
        for thread in self._threads:
            thread.join()

    def drawing(self) -> AbstractContextManager[None]:
        """Return an empty context: other machines measure."""
        return nullcontext()

    def submit(self, task: Task) -> None:
        """Submit a task, whose result appears in ``results``."""
        problem = task.job.problem
        with self._lock:
            if task.is_baseline:
                self._baseline_of[problem] = task
            self._send(task)

    def _send(self, task: Task) -> None:
        """Send a task to the machine of its problem, or to the least busy one with the baseline."""
        problem = task.job.problem
        link = self._link_of.get(problem)
        if link is None:
            left = [other for other in self._links if not other.lost]
            if not left:
                return  # the loss of the last machine ends the run
            link = self._link_of[problem] = min(left, key=lambda other: len(other.tasks))
            baseline = self._baseline_of.get(problem)
            if baseline is not None and not task.is_baseline:
                link.actor.submit.remote(Task(baseline.job, is_baseline=True, is_recorded=False))
        link.tasks.append(task)
        link.actor.submit.remote(task)  # `next` returns results and failures

    def _take(self, link: _Link) -> None:
        """Forward a machine's results, until it or the run ends."""
        while not self._stop.is_set():
            try:
                event: Event | None = self._ray.get(link.actor.next.remote())
            except self._ray.exceptions.RayError as error:
                if not self._stop.is_set():
                    self._give_to_others(link, error)
                return
            if isinstance(event, tuple):
                with self._lock:
                    if event[0] not in link.tasks:
                        continue  # a baseline that was sent again only for its result
                    link.tasks.remove(event[0])
            if event is not None:
                self.results.put(event)

    def _give_to_others(self, link: _Link, error: Exception) -> None:
        """Send the unfinished tasks of a lost machine to other machines."""
        with self._lock:
            link.lost = True
            if all(other.lost for other in self._links):
                self.results.put(Fatal(f"the last machine of the cluster is lost: {error}"))
                return
            self._link_of = {problem: of for problem, of in self._link_of.items() if of is not link}
            for task in link.tasks:
                self._send(task)
            link.tasks.clear()

    def _end(self) -> None:
        for link in self._links:
            if not link.lost:
                closed = link.actor.close.remote()
                self._ray.wait([closed], timeout=_WAIT_S)
            self._ray.kill(link.actor)


def _load_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MeasureError(f"Ray cannot be imported ({error}): pip install 'autosched[ray]'") from error
    return ray


def _cause(error: Exception) -> AutoschedError:
    """Return the cause of a failed start: an error of this package, or Ray's message."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, AutoschedError):
        return cause
    return MeasureError(f"a machine of the cluster does not start: {error}")
