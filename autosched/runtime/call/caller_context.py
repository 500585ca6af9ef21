"""How the caller works on the GPU: stream and memory of CuPy or of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from autosched.errors import LaunchError
from autosched.runtime.backends.gpu_driver import DeviceMemory, GpuDriver, Stream
from autosched.runtime.call.frameworks import is_torch


@dataclass(frozen=True, slots=True)
class CallerContext:
    """How the caller works on the GPU, so that the pipeline works the same way.

    Attributes:
        stream: The stream on which the caller's arrays are made and read.
        allocate: Returns memory of so many bytes, from the pool of the caller's framework.
        graphs_own_memory: Whether what is allocated during a capture stays with the captured graph.
    """

    stream: Stream
    allocate: Callable[[int], DeviceMemory]
    graphs_own_memory: bool = False


def context_of(arrays: Iterable[object], driver: GpuDriver, device: int, stream: int | None = None) -> CallerContext:
    """Return the stream and memory of whoever made `arrays`: PyTorch's for tensors, else CuPy's.

    Args:
        arrays: The caller's arrays.
        driver: The GPU.
        device: Number of the GPU on which they lie.
        stream: Handle of the stream to work on; that framework's current one when left out.
    """
    return context_like(driver, device, stream, as_torch=any(is_torch(array) for array in arrays))


def context_like(driver: GpuDriver, device: int, stream: int | None = None, *, as_torch: bool) -> CallerContext:
    """Return the stream and memory of a caller who works with PyTorch, or else with CuPy; see `context_of`."""
    if as_torch:
        handle = _torch_stream(device) if stream is None else stream
        memory = partial(_TorchMemory, device=device, stream=stream)
        return CallerContext(driver.foreign_stream(handle, device), memory, graphs_own_memory=True)
    if stream is None:
        return cupy_caller(driver)
    chosen = driver.foreign_stream(stream, device)
    return CallerContext(chosen, lambda size: driver.allocate(size, chosen))


def cupy_caller(driver: GpuDriver) -> CallerContext:
    """Return the stream and memory of a caller who works with CuPy."""
    stream = driver.current_stream()
    return CallerContext(stream, lambda size: driver.allocate(size, stream))


def _torch_stream(device: int) -> int:
    import torch

    return int(torch.cuda.current_stream(device).cuda_stream)


class _TorchMemory:
    """Memory from PyTorch's allocator, on a stream of ours or PyTorch's current one."""

    def __init__(self, size: int, device: int, stream: int | None) -> None:
        import torch

        cuda = cast(Any, torch.cuda)  # whose streams have no types
        try:
            with nullcontext() if stream is None else cuda.stream(cuda.ExternalStream(stream, device)):
                self._tensor = torch.empty(size, dtype=torch.uint8, device=f"cuda:{device}")
        except torch.cuda.OutOfMemoryError as error:
            raise LaunchError(f"allocating {size} bytes for intermediate arrays failed: {error}") from error

    @property
    def ptr(self) -> int:
        """Address of its first byte."""
        return self._tensor.data_ptr()
