"""Repeated calls: launches with bound arguments, and CUDA graphs of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.runtime.backends.gpu_driver import GpuDriver, Stream
from autosched.runtime.call.launch_plan import LaunchStep, StepArgument


@dataclass(slots=True)
class BoundStep:
    """A kernel's launches with bound arguments: the loaded kernel, and the arguments of the first launch."""

    step: LaunchStep
    function: Any
    arguments: tuple[Any, ...]

    def launches(self) -> Iterator[tuple[Any, ...]]:
        """Yield the arguments of each launch."""
        if self.step.launches == 1:
            yield self.arguments
            return
        numbered = [isinstance(a, StepArgument) for a in self.step.arguments]
        for n in range(self.step.launches):
            number = np.int32(n)
            yield tuple(number if is_step else a for is_step, a in zip(numbered, self.arguments, strict=True))


@dataclass(slots=True)
class RecentCall:
    """A recent call.

    Attributes:
        bound: The launches with bound arguments.
        graph: The launches as a CUDA graph, after it was captured.
    """

    bound: tuple[BoundStep, ...]
    graph: Any = None


class RecentCalls:
    """Least-recently-used cache of calls; not thread-safe.

    Args:
        capacity: Most calls in the cache.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._calls: OrderedDict[Hashable, RecentCall] = OrderedDict()

    def find(self, key: Hashable) -> RecentCall | None:
        """Return the cached call of a key, or None."""
        call = self._calls.get(key)
        if call is not None:
            self._calls.move_to_end(key)
        return call

    def add(self, key: Hashable, call: RecentCall) -> None:
        """Cache a call; the least recently used one is dropped from a full cache."""
        self._calls[key] = call
        if len(self._calls) > self._capacity:
            self._calls.popitem(last=False)


class CapturedGraph:
    """A pipeline's launches for fixed arrays and parameters as one CUDA graph.

    Keep the object until its last launch is done: it owns the intermediate arrays.

    Args:
        graph: The driver's graph.
        driver: The driver.
        device: Number of its GPU.
        keep_alive: The arrays that it reads and writes, which live as long as the graph.
    """

    def __init__(self, graph: Any, driver: GpuDriver, device: int, keep_alive: object) -> None:
        self._graph = graph
        self._driver = driver
        self._device = device
        self._keep_alive = keep_alive
        self._lock = threading.Lock()

    def launch(self, stream: Stream | None = None) -> None:
        """Launch the graph on a stream; the caller's current one when left out.

        Raises:
            LaunchError: If the driver refuses.
        """
        with self._lock, self._driver.on_device(self._device):  # a graph's launches must not race
            self._driver.launch_graph(self._graph, stream or self._driver.current_stream())
