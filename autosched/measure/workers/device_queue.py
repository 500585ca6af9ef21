"""The candidates of one device, in order: each after the baseline of its problem."""

from __future__ import annotations

import queue
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import closing

from autosched.measure.backend import Backend
from autosched.measure.job import Failure, Prepared, Status, Timing
from autosched.measure.problem import Problem
from autosched.measure.settings import MeasureSettings
from autosched.measure.workers.core_arbiter import CoreArbiter
from autosched.measure.workers.device_process import DeviceProcess
from autosched.measure.workers.task import Compiled, Task

Item = tuple[Task, Compiled]


class DeviceQueue:
    """Measures what is compiled on one device, in a thread of its own.

    Args:
        backend: The device.
        settings: Time limits.
        turns: Keeps compilers away while it measures, where that is needed.
        finish: Takes each task with what came of it.
    """

    def __init__(
        self,
        backend: Backend,
        settings: MeasureSettings,
        turns: CoreArbiter,
        finish: Callable[[Task, Compiled, Timing | Failure], None],
    ) -> None:
        self._bench = DeviceProcess(backend, settings)
        self._turns = turns
        self._finish = finish
        self._items: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._baselines: OrderedDict[Problem, Compiled] = OrderedDict()
        # A candidate's baseline was given before it, but less than twice the candidates on their way ago.
        self._kept = 2 * settings.window + 1
        self._early: dict[Problem, list[Item]] = {}

    def put(self, task: Task, compiled: Compiled) -> None:
        """Take a task that is compiled."""
        self._items.put((task, compiled))

    def stop(self) -> None:
        """Let `run` end at once; what it is at is lost."""
        self._stop.set()
        self._items.put(None)
        self._bench.worker.interrupt()

    def run(self) -> None:
        """Measure until `stop` is called.

        Raises:
            MeasureError: If no process can be started.
        """
        with closing(self._bench.worker):
            while (item := self._items.get()) is not None:
                with self._turns.measuring():
                    self._measure_all(item)

    def _measure_all(self, item: Item | None) -> None:
        """Measure a candidate and all that are compiled until it is done."""
        while item is not None and not self._stop.is_set():
            for task, compiled in self._ready(item):
                found = self._measured(task, compiled)
                if self._stop.is_set():
                    return
                self._finish(task, compiled, found)
            item = self._next()

    def _next(self) -> Item | None:
        try:
            return self._items.get_nowait()
        except queue.Empty:
            return None

    def _ready(self, item: Item) -> list[Item]:
        """Return what can be measured now that one more is compiled: a candidate has to wait for its baseline."""
        task, compiled = item
        problem = task.job.problem
        if task.is_baseline:
            self._baselines[problem] = compiled
        elif problem not in self._baselines:
            self._early.setdefault(problem, []).append(item)
            return []
        self._baselines.move_to_end(problem)
        if len(self._baselines) > self._kept:
            self._baselines.popitem(last=False)
        return [item, *self._early.pop(problem, ())]

    def _measured(self, task: Task, compiled: Compiled) -> Timing | Failure:
        baseline = self._baselines[task.job.problem]
        if isinstance(compiled, Failure):
            return compiled
        if not isinstance(baseline, Prepared):
            return Failure(Status.NO_REFERENCE, f"the baseline failed ({baseline.status}): {baseline.message}")
        if task.is_recorded:
            return self._bench.time(compiled, baseline)
        return self._bench.trust(baseline) or Timing(0.0, 0.0, ())
