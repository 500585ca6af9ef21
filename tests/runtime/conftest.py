"""Fixtures of the runtime tests: a private cache directory, a log of compilations, a GPU that only records calls."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import LaunchError
from autosched.runtime.call.launch_plan import Dim3
from autosched.runtime.compile import nvrtc


@pytest.fixture
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point the on-disk cache to an empty directory."""
    directory = tmp_path / "cache"
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(directory))
    return directory


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the programs that NVRTC really compiles."""
    compiled: list[str] = []
    original = nvrtc._compile

    def spy(source: str, arch: str, options: nvrtc.NvrtcOptions, name: str) -> tuple[bytes, str]:
        compiled.append(name)
        return original(source, arch, options, name)

    monkeypatch.setattr(nvrtc, "_compile", spy)
    return compiled


@pytest.fixture
def gpu() -> FakeDriver:
    """Return a driver of a GPU that is not there."""
    return FakeDriver()


@dataclass(eq=False)
class FakeStream:
    """A stream that stores the launches recorded while it is captured."""

    ptr: int
    recording: list[Launch] | None = None


@dataclass(eq=False)
class FakeMemory:
    """A piece of memory with an address."""

    ptr: int
    size: int


@dataclass(frozen=True)
class FakeFunction:
    """A kernel of a module that was loaded on a device."""

    code: bytes
    device: int
    name: str


@dataclass(frozen=True)
class Launch:
    """One launch, as the GPU saw it."""

    function: FakeFunction
    grid: Dim3
    block: Dim3
    arguments: tuple[Any, ...]
    shared_bytes: int


@dataclass
class FakeGraph:
    """A graph that was captured."""

    launches: tuple[Launch, ...]


@dataclass
class FakeDriver:
    """A driver of two devices; `ran` lists (stream handle, kernel) in the order of execution."""

    shared_limit: int = 227 * 1024
    device: int = 0
    stream: FakeStream = field(default_factory=lambda: FakeStream(0))
    launches: list[tuple[int, Launch]] = field(default_factory=list)
    graph_launches: list[tuple[int, FakeGraph]] = field(default_factory=list)
    graphs: list[FakeGraph] = field(default_factory=list)
    modules: list[tuple[int, bytes]] = field(default_factory=list)
    allowed: list[tuple[str, int]] = field(default_factory=list)
    memory: list[FakeMemory] = field(default_factory=list)
    fail_launch: str = ""
    fail_capture: bool = False
    slow: bool = False

    @property
    def ran(self) -> list[tuple[int, str]]:
        """The direct launches: stream and kernel."""
        return [(stream, launch.function.name) for stream, launch in self.launches]

    def current_device(self) -> int:
        return self.device

    @contextmanager
    def on_device(self, device: int) -> Iterator[None]:
        before, self.device = self.device, device
        try:
            yield
        finally:
            self.device = before

    def current_stream(self) -> FakeStream:
        return self.stream

    def other_stream(self, pointer: int) -> FakeStream:
        return FakeStream(pointer)

    def foreign_stream(self, pointer: int, device: int) -> FakeStream:
        return FakeStream(pointer)

    def private_stream(self) -> FakeStream:
        return FakeStream(0xCA00 + self.device)

    def is_capturing(self, stream: FakeStream) -> bool:
        return stream.recording is not None

    def allocate(self, size: int, stream: FakeStream) -> FakeMemory:
        piece = FakeMemory(0x1000_0000 * (len(self.memory) + 1), size)
        self.memory.append(piece)
        return piece

    def load_module(self, code: bytes) -> tuple[int, bytes]:
        self.modules.append((self.device, code))
        return self.device, code

    def get_function(self, module: tuple[int, bytes], name: str) -> FakeFunction:
        return FakeFunction(module[1], module[0], name)

    def shared_memory_limit(self) -> int:
        return self.shared_limit

    def allow_shared_memory(self, function: FakeFunction, size: int) -> None:
        self.allowed.append((function.name, size))

    def launch(
        self,
        function: FakeFunction,
        grid: Dim3,
        block: Dim3,
        arguments: tuple[Any, ...],
        shared_bytes: int,
        stream: FakeStream,
    ) -> None:
        if function.name == self.fail_launch:
            raise LaunchError("the driver refuses")
        assert function.device == self.device, "a kernel is launched on a device that did not load it"
        launch = Launch(function, grid, block, arguments, shared_bytes)
        if stream.recording is not None:
            stream.recording.append(launch)
            return
        self.launches.append((stream.ptr, launch))
        if self.slow:
            time.sleep(0.002)

    def begin_capture(self, stream: FakeStream) -> None:
        if self.fail_capture:
            raise LaunchError("capturing is not supported")
        assert stream.ptr > 2, "a default stream cannot be captured"
        assert stream.recording is None
        stream.recording = []

    def end_capture(self, stream: FakeStream) -> FakeGraph:
        assert stream.recording is not None
        graph = FakeGraph(tuple(stream.recording))
        stream.recording = None
        self.graphs.append(graph)
        return graph

    def launch_graph(self, graph: FakeGraph, stream: FakeStream) -> None:
        self.graph_launches.append((stream.ptr, graph))
