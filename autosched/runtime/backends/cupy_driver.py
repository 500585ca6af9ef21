"""The GPU through CuPy, and the reason if there is none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any

from autosched.errors import LaunchError
from autosched.runtime.backends.gpu_driver import DeviceMemory, GpuDriver, Stream
from autosched.runtime.call.launch_plan import Dim3

_MOST_STREAMS = 64
_LEGACY_STREAMS = (0, 1)  # handles of the default stream, which all threads share

_HINTS = (
    (
        "OUT[_ ]?OF[_ ]?MEMORY",
        "free GPU memory (torch.cuda.empty_cache(), cupy.get_default_memory_pool().free_all_blocks()) or schedule for "
        "smaller shapes",
    ),
    ("NO_BINARY_FOR_GPU", "the kernels were compiled for another GPU: compile with target='cuda' on this machine"),
    (
        "INVALID_IMAGE",
        "the driver cannot load code of this NVRTC version: upgrade the driver, or install the extra cuda12",
    ),
    (
        "ILLEGAL_?ADDRESS|LAUNCH_?FAIL|MISALIGNED_?ADDRESS",
        "an earlier kernel failed and this process cannot use the GPU any more: start it anew",
    ),
    ("STREAM_?CAPTURE", "a stream is being captured: call the pipeline once before, and capture in the relaxed mode"),
)
"""Ways out by a pattern of the error's name in the driver or the runtime."""


class CupyDriver:
    """The GPU through CuPy; see :class:`GpuDriver` for the methods."""

    def __init__(self) -> None:
        import cupy

        self._cupy = cupy
        self._foreign: dict[tuple[int, int], Stream] = {}
        self._errors = (
            cupy.cuda.driver.CUDADriverError,
            cupy.cuda.runtime.CUDARuntimeError,
            cupy.cuda.memory.OutOfMemoryError,
        )

    def current_device(self) -> int:
        """Return the number of the current device."""
        try:  # no `_explained` on the path of every call: it takes as long as the driver's function
            return int(self._cupy.cuda.runtime.getDevice())
        except self._errors as error:
            raise _explanation("reading the current GPU", error) from error

    def on_device(self, device: int) -> AbstractContextManager[Any]:
        """Make a device the current one within the context."""
        context: AbstractContextManager[Any] = self._cupy.cuda.Device(device)
        return context

    def current_stream(self) -> Stream:
        """Return CuPy's current stream."""
        stream: Stream = self._cupy.cuda.get_current_stream()
        return stream

    def foreign_stream(self, pointer: int, device: int) -> Stream:
        """Return a stream that another framework owns."""
        cached = self._foreign.get((pointer, device))
        if cached is not None:
            return cached
        streams = self._cupy.cuda
        if hasattr(streams.Stream, "from_external"):  # since CuPy 14
            stream: Stream = streams.Stream.from_external(_StreamHandle(pointer))
        else:
            stream = streams.ExternalStream(pointer, device)
        if len(self._foreign) >= _MOST_STREAMS:
            self._foreign.clear()
        self._foreign[pointer, device] = stream
        return stream

    def on_stream(self, stream: Any) -> AbstractContextManager[Any]:
        """Make a stream the current one within the context."""
        context: AbstractContextManager[Any] = stream
        return context

    def private_stream(self) -> Stream:
        """Return a new stream that does not wait for the default one."""
        with self._explained("making a stream"):
            stream: Stream = self._cupy.cuda.Stream(non_blocking=True)
        return stream

    def is_capturing(self, stream: Any) -> bool:
        """Whether a stream is being captured; the shared default stream never is, and cannot be queried."""
        if stream.ptr in _LEGACY_STREAMS:
            return False
        try:
            return bool(stream.is_capturing())
        except self._errors as error:
            raise _explanation("reading the capture status of a stream", error) from error

    def allocate(self, size: int, stream: Any) -> DeviceMemory:
        """Return memory of CuPy's pool, which reuses it in the order of the stream."""
        with self._explained(f"allocating {size} bytes for intermediate arrays"), stream:
            memory: DeviceMemory = self._cupy.cuda.alloc(size)
        return memory

    def load_module(self, code: bytes) -> Any:
        """Load a cubin."""
        module = self._cupy.cuda.function.Module()
        with self._explained("loading a cubin"):
            module.load(code)
        return module

    def get_function(self, module: Any, name: str) -> Any:
        """Return a kernel of a loaded cubin."""
        with self._explained(f"finding kernel {name}"):
            return module.get_function(name)

    def shared_memory_limit(self) -> int:
        """Return the most bytes of dynamic shared memory that a block can opt in to."""
        runtime = self._cupy.cuda.runtime
        with self._explained("reading the shared memory limit"):
            return int(runtime.deviceGetAttribute(runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin, runtime.getDevice()))

    def allow_shared_memory(self, function: Any, size: int) -> None:
        """Allow launches of a kernel with up to `size` bytes of dynamic shared memory."""
        driver = self._cupy.cuda.driver
        attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        with self._explained(f"allowing {size} bytes of shared memory"):
            driver.funcSetAttribute(function.ptr, attribute, size)

    def launch(
        self, function: Any, grid: Dim3, block: Dim3, arguments: tuple[Any, ...], shared_bytes: int, stream: Any
    ) -> None:
        """Launch a kernel."""
        try:
            function(grid, block, arguments, shared_mem=shared_bytes, stream=stream)
        except self._errors as error:
            action = f"launching grid {grid}, block {block}, {shared_bytes} bytes of shared memory"
            raise _explanation(action, error) from error

    def begin_capture(self, stream: Any) -> None:
        """Start to record the work on a stream, without disturbing other threads."""
        with self._explained("starting to capture a CUDA graph"):
            stream.begin_capture(self._cupy.cuda.runtime.streamCaptureModeRelaxed)

    def end_capture(self, stream: Any) -> Any:
        """Stop recording and return the graph, ready to be launched."""
        with self._explained("capturing a CUDA graph"):
            return stream.end_capture()

    def launch_graph(self, graph: Any, stream: Any) -> None:
        """Launch a graph."""
        try:
            graph.launch(stream)
        except self._errors as error:
            raise _explanation("launching a CUDA graph", error) from error

    @contextmanager
    def _explained(self, action: str) -> Iterator[None]:
        """Turn CuPy's errors into one that names the action and a way out."""
        try:
            yield
        except self._errors as error:
            raise _explanation(action, error) from error


@lru_cache(maxsize=1)
def gpu_driver() -> GpuDriver:
    """Return the driver of this machine's GPUs.

    Raises:
        LaunchError: If nothing can be launched here; the message has the reason and the alternatives.
    """
    try:
        import cupy
    except ImportError as error:
        reason = f"CuPy cannot be imported ({error}): pip install 'autosched[cuda13]', or cuda12 for an older driver"
        raise _no_gpu(reason) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise _no_gpu(str(error)) from error
    if count == 0:
        raise _no_gpu("the driver finds no device")
    return CupyDriver()


def gpu_problem() -> str:
    """Return why nothing can be launched on this machine; empty if kernels can."""
    try:
        gpu_driver()
    except LaunchError as error:
        return str(error)
    return ""


class _StreamHandle:
    """A bare stream handle in the form of the CUDA stream protocol."""

    def __init__(self, pointer: int) -> None:
        self._pointer = pointer

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the protocol's version and the handle."""
        return 0, self._pointer


def _explanation(action: str, error: Exception) -> LaunchError:
    text = f"{type(error).__name__}: {error}"
    hint = next((f"; {hint}" for pattern, hint in _HINTS if re.search(pattern, text, re.IGNORECASE)), "")
    return LaunchError(f"{action} failed: {error}{hint}")


def _no_gpu(reason: str) -> LaunchError:
    return LaunchError(
        f"no kernel can be launched on a GPU here: {reason}. Scheduling, compiling to cubins, and running with "
        "backend='cpu' or backend='emulator' work without one"
    )
