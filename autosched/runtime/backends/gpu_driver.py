"""Interface of the GPU driver functions that launching uses; tests replace it by a fake driver."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from autosched.runtime.call.launch_plan import Dim3

PER_THREAD_DEFAULT_STREAM = 2
"""Handle of the per-thread default stream (``cudaStreamPerThread``)."""


class Stream(Protocol):
    """A CUDA stream, such as CuPy's."""

    @property
    def ptr(self) -> int:
        """The driver's handle."""


class DeviceMemory(Protocol):
    """GPU memory that is freed with the object."""

    @property
    def ptr(self) -> int:
        """Address of its first byte."""


class GpuDriver(Protocol):
    """Driver functions for launching, on the current device; errors are LaunchErrors."""

    def current_device(self) -> int:
        """Return the number of the current device."""

    def on_device(self, device: int) -> AbstractContextManager[Any]:
        """Make a device the current one within the context."""

    def current_stream(self) -> Stream:
        """Return the caller's current stream."""

    def foreign_stream(self, pointer: int, device: int) -> Stream:
        """Return a stream that another framework owns."""

    def on_stream(self, stream: Stream) -> AbstractContextManager[Any]:
        """Make a stream the current one within the context."""

    def private_stream(self) -> Stream:
        """Return a new stream that does not wait for the default one."""

    def is_capturing(self, stream: Stream) -> bool:
        """Whether work on a stream is recorded into a graph instead of executed."""

    def allocate(self, size: int, stream: Stream) -> DeviceMemory:
        """Return memory in the allocation order of a stream."""

    def load_module(self, code: bytes) -> Any:
        """Load a cubin."""

    def get_function(self, module: Any, name: str) -> Any:
        """Return a kernel of a loaded cubin."""

    def shared_memory_limit(self) -> int:
        """Return the most bytes of dynamic shared memory that a block can opt in to."""

    def allow_shared_memory(self, function: Any, size: int) -> None:
        """Allow launches of a kernel with up to `size` bytes of dynamic shared memory."""

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
