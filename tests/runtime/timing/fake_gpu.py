"""A GPU that only takes notes and has a clock of its own, for timing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.errors import DeviceLostError, LaunchError
from tests.runtime.conftest import FakeDriver, FakeGraph, FakeMemory, FakeStream

FILL_S = 20e-6
EVENT_S = 1e-6


@dataclass
class FakeEvent:
    """An event, and when it came."""

    seconds: float = float("nan")


class TimedDriver(FakeDriver):
    """A driver whose launches take time on the device."""

    def __init__(self, device: FakeGpu, **settings: Any) -> None:
        super().__init__(**settings)
        self.gpu = device

    def launch(self, function: Any, *arguments: Any) -> None:
        super().launch(function, *arguments)
        if arguments[-1].recording is None:
            self.gpu.run(function.name)

    def launch_graph(self, graph: FakeGraph, stream: FakeStream) -> None:
        super().launch_graph(graph, stream)
        for launch in graph.launches:
            self.gpu.run(launch.function.name)


@dataclass(eq=False)
class FakeGpu:
    """Runs nothing; kernels take the seconds that are given by name, and those that are ``lost`` lose the device."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    cache_bytes: int = 1 << 20
    memory_bytes: int = 1 << 30
    lost: str = ""
    refused: str = ""
    fail_capture: bool = False
    now: float = 0.0
    written: dict[int, bytes] = field(default_factory=dict)
    fills: list[tuple[int, int, int]] = field(default_factory=list)
    memory: list[FakeMemory] = field(default_factory=list)
    is_lost: bool = False

    def __post_init__(self) -> None:
        self.stream = FakeStream(7)
        self.driver = TimedDriver(self, fail_launch=self.refused, fail_capture=self.fail_capture)

    def run(self, name: str) -> None:
        self.now += self.seconds.get(name, 10e-6)
        self.is_lost |= name == self.lost

    def free_bytes(self) -> int:
        return self.memory_bytes

    def allocate(self, size: int) -> FakeMemory:
        if size > self.memory_bytes:
            raise LaunchError("out of memory")
        self.memory.append(FakeMemory((len(self.memory) + 1) << 32, size))
        return self.memory[-1]

    def write(self, address: int, array: NDArray[Any]) -> None:
        self.written[address] = array.tobytes()

    def read(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        self.synchronise()
        return np.zeros(shape, dtype)

    def fill(self, address: int, size: int, byte: int) -> None:
        self.fills.append((address, size, byte))
        self.now += FILL_S

    def event(self) -> FakeEvent:
        return FakeEvent()

    def record(self, event: FakeEvent) -> None:
        self.now += EVENT_S
        event.seconds = self.now

    def seconds_between(self, start: FakeEvent, end: FakeEvent) -> float:
        self.synchronise()
        return end.seconds - start.seconds

    def synchronise(self) -> None:
        if self.is_lost:
            raise DeviceLostError("a kernel failed and the device is lost to this process")

    def conditions(self) -> Mapping[str, str | float]:
        return {"driver": "13.0", "sm_mhz": 1980.0}
