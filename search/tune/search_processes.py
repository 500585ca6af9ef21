"""Searches of several rewrites in several processes, step by step.

After each step every search gets the least cost of all, from which it decides how to go on. The searches are otherwise
independent, so that any number of processes finds the same results. Processes are forks, made before the searches have
filled any cache: a process that starts clean would import PyTorch and analyse the pipeline first, which takes a second
and more. A fork is safe here because a search runs Python, NumPy and single-threaded PyTorch alone: no team of OpenMP,
no CUDA context, no lock of another thread.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

T = TypeVar("T")
SteppedSearch = Generator[float, float, T]
"""A search that yields the cost of its best state after each step, and gets the least cost of all searches."""


def run_stepped(searches: Sequence[Callable[[], SteppedSearch[T]]], processes: int = 1) -> list[T]:
    """Return the results of searches, in their order.

    Args:
        searches: Functions that begin a search; all have the same number of steps. Results of other processes are
            pickled. Where a process is killed, or its search fails, this process repeats the search.
        processes: Number of processes, this one included; 1 off Linux.

    Raises:
        Exception: The error of a search.
    """
    count = min(processes, len(searches)) if sys.platform == "linux" else 1
    group = _Group(searches)
    workers: list[_Worker] = []
    try:
        workers += (_fork(searches, range(k, len(searches), count)) for k in range(1, count))
        group.begin(range(0, len(searches), count))
        least: float | None = None
        while True:
            for worker in workers:
                worker.send(least)
            costs = group.step(least)
            for worker in list(workers):
                answer = worker.answer()
                if answer is None:
                    workers.remove(worker)
                    worker.close()
                costs |= group.repeat(worker.numbers) if answer is None else answer
            if not costs:
                break
            least = min(costs.values())
        for worker in workers:
            results = worker.answer()
            group.results |= group.repeated_results(worker.numbers) if results is None else results
    finally:
        for worker in workers:
            worker.close()
    return [group.results[number] for number in range(len(searches))]


@dataclass
class _Group(Generic[T]):
    """The searches of one process.

    Attributes:
        searches: Begin the searches, those of other processes included.
        results: Results by number of the search.
    """

    searches: Sequence[Callable[[], SteppedSearch[T]]]
    results: dict[int, T] = field(default_factory=dict)
    _running: dict[int, SteppedSearch[T]] = field(default_factory=dict)
    _received: list[float | None] = field(default_factory=list)

    def begin(self, numbers: Sequence[int]) -> None:
        """Add searches."""
        self._running |= {number: self.searches[number]() for number in numbers}

    def step(self, least: float | None) -> dict[int, float]:
        """Run one step of all searches; return the costs by number, of those that go on."""
        self._received.append(least)
        return {n: cost for n in list(self._running) if (cost := self._step(n, least)) is not None}

    def _step(self, number: int, least: float | None) -> float | None:
        search = self._running[number]
        try:
            return next(search) if least is None else search.send(least)
        except StopIteration as end:
            self.results[number] = end.value
            del self._running[number]
            return None

    def repeat(self, numbers: Sequence[int]) -> dict[int, float]:
        """Add searches of a process that has ended, up to the current step; return their costs."""
        self.begin(numbers)
        costs: dict[int, float | None] = {}
        for least in self._received:
            costs = {number: self._step(number, least) for number in numbers if number in self._running}
        return {number: cost for number, cost in costs.items() if cost is not None}

    def repeated_results(self, numbers: Sequence[int]) -> dict[int, T]:
        """Return the results of searches of a process that has ended, repeated."""
        self.repeat(numbers)
        return {number: self.results[number] for number in numbers}


@dataclass
class _Worker:
    """Another process.

    Attributes:
        pid: Its process ID.
        numbers: Its searches.
        connection: Takes least costs; returns the costs of each step, and the results in the end.
    """

    pid: int
    numbers: Sequence[int]
    connection: Connection[Any, Any]

    def send(self, least: float | None) -> None:
        """Begin a step."""
        with suppress(OSError):  # it was killed; there is no answer either
            self.connection.send(least)

    def answer(self) -> dict[int, Any] | None:
        """Return the costs of a step, or the results; None if the process has ended before."""
        try:
            answer: dict[int, Any] = self.connection.recv()
        except (EOFError, OSError, pickle.UnpicklingError):
            return None
        return answer

    def close(self) -> None:
        """End the process."""
        self.connection.close()
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def _fork(searches: Sequence[Callable[[], SteppedSearch[T]]], numbers: Sequence[int]) -> _Worker:
    """Start a process for some of the searches."""
    ours, theirs = Pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads, such as an idle thread pool's
        pid = os.fork()
    if pid:
        theirs.close()
        return _Worker(pid, numbers, ours)
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends this one
        ours.close()
        with suppress(Exception):  # the first process repeats the search, and meets the error itself
            group = _Group(searches)
            group.begin(numbers)
            going_on = True
            while going_on:
                costs = group.step(theirs.recv())
                theirs.send(costs)
                going_on = bool(costs)
            theirs.send(group.results)
    finally:
        os._exit(0)  # without handlers and buffers of the first process
