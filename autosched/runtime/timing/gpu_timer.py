"""Time a pipeline's launches on a GPU: whole rounds as one graph, and each kernel between two events."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence

import numpy as np

from autosched.errors import LaunchError
from autosched.runtime.call.cuda_graphs import BoundStep
from autosched.runtime.timing.gpu_arrays import GpuArrays
from autosched.runtime.timing.gpu_device import GpuDevice
from autosched.runtime.timing.statistics import StopRule, collect
from autosched.runtime.timing.timed_launches import Launches

WARM_UP_S = 0.01
"""Duration of warm-up rounds before the first sample, which load code and raise clocks."""
KERNEL_RUNS = 12
"""Runs with an event after every kernel, in rotation over the copies."""

_LAUNCHES_PER_FLUSH = 2
"""Launches that the host queues during one flush of the cache."""
_LEAST_SHARE = 0.1
"""Least share of the time between its events that counts for a kernel."""


class GpuTimer:
    """Times launches on a device.

    Args:
        device: The device.
        arrays: Rotated copies of the arrays, which keep inputs cold.
        rule: Stopping rule.
        clock: The host's clock, in seconds.
    """

    def __init__(
        self,
        device: GpuDevice,
        arrays: GpuArrays,
        rule: StopRule,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._device = device
        self._arrays = arrays
        self._rule = rule
        self._clock = clock

    def run(self, launches: Launches) -> None:
        """Launch once and wait.

        Raises:
            DeviceLostError: If a kernel failed.
        """
        self._launch_all(launches)
        self._device.synchronise()

    def samples(self, copies: Sequence[Launches]) -> list[float]:
        """Return times of one run, in seconds: each is the mean of a round over all copies, back to back.

        Args:
            copies: The same pipeline's launches on every copy of the arrays.
        """
        return collect(self.sampler(copies), self._rule, self._clock)

    def sampler(self, copies: Sequence[Launches]) -> Callable[[], float]:
        """Return a function that measures one such time, after warm-up."""
        self.run(copies[0])  # the first launch loads code, which must not happen during a capture
        device, launch = self._device, self._as_graph(copies)
        start, end = device.event(), device.event()

        def sample() -> float:
            self._arrays.flush()  # the round is queued during the flush, so the device never waits for the host
            device.record(start)
            launch()
            device.record(end)
            return device.seconds_between(start, end) / len(copies)

        started = self._clock()
        while True:
            sample()
            if self._clock() - started >= WARM_UP_S:
                break
        return sample

    def kernel_seconds(self, copies: Sequence[Launches], seconds: float) -> tuple[float, ...]:
        """Return the time of each kernel within a run, in launch order; the sum is the time of the run.

        Events take time themselves. The time between two adjacent events is subtracted, and the rest is scaled to the
        time of a run without events.

        Args:
            copies: The same pipeline's launches on every copy of the arrays.
            seconds: Time of a run.
        """
        count = len(copies[0].steps)
        events = [self._device.event() for _ in range(count + 2)]
        runs = []
        for n in range(KERNEL_RUNS):
            self._arrays.flush(1 + count // _LAUNCHES_PER_FLUSH)
            self._device.record(events[0])
            self._device.record(events[1])
            for k, step in enumerate(copies[n % len(copies)].steps):
                if step is not None:
                    self._launch(step)
                self._device.record(events[k + 2])
            self._device.synchronise()
            runs.append([self._device.seconds_between(a, b) for a, b in itertools.pairwise(events)])
        empty, *between = (float(t) for t in np.median(np.asarray(runs), axis=0))
        return shares(seconds, between, empty, [step is not None for step in copies[0].steps])

    def _as_graph(self, copies: Sequence[Launches]) -> Callable[[], None]:
        """Return a function that launches a round: as one graph, or one by one if capturing fails."""
        device = self._device

        def plainly() -> None:
            for launches in copies:
                self._launch_all(launches)

        stream = device.stream
        try:
            device.driver.begin_capture(stream)
        except LaunchError:
            return plainly
        try:
            plainly()
        finally:
            graph = device.driver.end_capture(stream)
        return lambda: device.driver.launch_graph(graph, stream)

    def _launch_all(self, launches: Launches) -> None:
        for step in launches.steps:
            if step is not None:
                self._launch(step)

    def _launch(self, bound: BoundStep) -> None:
        step = bound.step
        for arguments in bound.launches():
            self._device.driver.launch(
                bound.function, step.grid, step.block, arguments, step.shared_bytes, self._device.stream
            )


def shares(seconds: float, between: Sequence[float], empty: float, launched: Sequence[bool]) -> tuple[float, ...]:
    """Return the time of each kernel within a run.

    Args:
        seconds: Time of a run, in seconds.
        between: Time between the events around each kernel.
        empty: Time between two adjacent events.
        launched: Whether each kernel has any block.
    """
    durations = [max(t - empty, _LEAST_SHARE * t) if there else 0.0 for t, there in zip(between, launched, strict=True)]
    total = sum(durations)
    return tuple(seconds * t / total if total > 0 else 0.0 for t in durations)
