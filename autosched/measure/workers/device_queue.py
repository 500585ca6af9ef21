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
    """Measures compiled candidates on one device, in a thread of its own.

    Args:
        backend: The device.
        settings: Time limits.
        arbiter: Excludes compilers during a measurement, if the device needs it.
        finish: Called with each task, its code, and its time or failure.
    """

    def __init__(
        self,
        backend: Backend,
        settings: MeasureSettings,
        arbiter: CoreArbiter,
        finish: Callable[[Task, Compiled, Timing | Failure], None],
    ) -> None:
        self._process = DeviceProcess(backend, settings)
        self._arbiter = arbiter
        self._finish = finish
        self._items: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._baselines: OrderedDict[Problem, Compiled] = OrderedDict()
        # A candidate's baseline was submitted before it, by less than twice the candidates in flight.
        self._most_baselines = 2 * settings.window + 1
        self._without_baseline: dict[Problem, list[Item]] = {}

    def put(self, task: Task, compiled: Compiled) -> None:
        """Add a compiled task."""
        self._items.put((task, compiled))

    def stop(self) -> None:
        """End `run` at once; the current task is lost."""
        self._stop.set()
        self._items.put(None)
        self._process.worker.interrupt()

    def run(self) -> None:
        """Measure until `stop` is called.

        Raises:
            MeasureError: If no process can be started.
        """
        with closing(self._process.worker):
            while (item := self._items.get()) is not None:
                with self._arbiter.measuring():
                    self._measure_all(item)

    def _measure_all(self, item: Item | None) -> None:
        """Measure a candidate, and all candidates that are compiled meanwhile."""
        while item is not None and not self._stop.is_set():
            for task, compiled in self._ready(item):
                outcome = self._measured(task, compiled)
                if self._stop.is_set():
                    return
                self._finish(task, compiled, outcome)
            item = self._next()

    def _next(self) -> Item | None:
        try:
            return self._items.get_nowait()
        except queue.Empty:
            return None

    def _ready(self, item: Item) -> list[Item]:
        """Return the measurable candidates after a new one: a candidate has to wait for its baseline."""
        task, compiled = item
        problem = task.job.problem
        if task.is_baseline:
            self._baselines[problem] = compiled
        elif problem not in self._baselines:
            self._without_baseline.setdefault(problem, []).append(item)
            return []
        self._baselines.move_to_end(problem)
        if len(self._baselines) > self._most_baselines:
            self._baselines.popitem(last=False)
        return [item, *self._without_baseline.pop(problem, ())]

    def _measured(self, task: Task, compiled: Compiled) -> Timing | Failure:
        baseline = self._baselines[task.job.problem]
        if isinstance(compiled, Failure):
            return compiled
        if not isinstance(baseline, Prepared):
            return Failure(Status.NO_REFERENCE, f"the baseline failed ({baseline.status}): {baseline.message}")
        if task.is_recorded:
            return self._process.time(compiled, baseline)
        return self._process.trust(baseline) or Timing(0.0, 0.0, ())
