"""The few calls to the GPU that launching needs, so that all else works with any driver, a fake one too."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from autosched.runtime.call.launch_plan import Dim3

PER_THREAD_DEFAULT_STREAM = 2
"""Handle of the default stream that each thread has of its own (``cudaStreamPerThread``)."""


class Stream(Protocol):
    """A CUDA stream; CuPy's streams are such."""

    @property
    def ptr(self) -> int:
        """The driver's handle."""


class DeviceMemory(Protocol):
    """A piece of GPU memory that is free again when the object is gone."""

    @property
    def ptr(self) -> int:
        """Address of its first byte."""


class GpuDriver(Protocol):
    """What launching needs from a GPU. Calls refer to the current device; errors are LaunchErrors."""

    def current_device(self) -> int:
        """Return the number of the current device."""

    def on_device(self, device: int) -> AbstractContextManager[Any]:
        """Make a device the current one for a while."""

    def current_stream(self) -> Stream:
        """Return the stream on which the caller works."""

    def foreign_stream(self, pointer: int, device: int) -> Stream:
        """Return a stream that another framework owns."""

    def on_stream(self, stream: Stream) -> AbstractContextManager[Any]:
        """Make a stream the current one for a while."""

    def private_stream(self) -> Stream:
        """Return a new stream that does not wait for the default one."""

    def is_capturing(self, stream: Stream) -> bool:
        """Whether work on a stream is recorded into a graph instead of being done."""

    def allocate(self, size: int, stream: Stream) -> DeviceMemory:
        """Return memory that is used in the order of a stream."""

    def load_module(self, code: bytes) -> Any:
        """Load a cubin."""

    def get_function(self, module: Any, name: str) -> Any:
        """Return a kernel of a loaded cubin."""

    def shared_memory_limit(self) -> int:
        """Return the most bytes of dynamic shared memory that a block can opt in to."""

    def allow_shared_memory(self, function: Any, size: int) -> None:
        """Let a kernel be launched with up to `size` bytes of dynamic shared memory."""

    def launch(
        self, function: Any, grid: Dim3, block: Dim3, arguments: tuple[Any, ...], shared_bytes: int, stream: Stream
    ) -> None:
        """Launch a kernel."""

    def begin_capture(self, stream: Stream) -> None:
        """Start to record the work on a stream."""

    def end_capture(self, stream: Stream) -> Any:
        """Stop recording and return the graph, ready to be launched."""

    def launch_graph(self, graph: Any, stream: Stream) -> None:
        """Launch a graph."""
