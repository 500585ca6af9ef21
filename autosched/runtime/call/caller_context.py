"""Stream and memory pool of the caller's framework, CuPy or PyTorch."""

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
    """The caller's stream and memory pool, which the pipeline uses too.

    Attributes:
        stream: The stream on which the caller's arrays are made and read.
        allocate: Allocates a number of bytes from the pool of the caller's framework.
        graphs_own_memory: Whether memory allocated during a capture belongs to the captured graph.
    """

    stream: Stream
    allocate: Callable[[int], DeviceMemory]
    graphs_own_memory: bool = False


def context_of(arrays: Iterable[object], driver: GpuDriver, device: int, stream: int | None = None) -> CallerContext:
    """Return the context of the framework of `arrays`: PyTorch's for tensors, else CuPy's.

    Args:
        arrays: The caller's arrays.
        driver: The GPU.
        device: Number of the arrays' GPU.
        stream: Handle of the stream to use; the framework's current one when left out.
    """
    return context_like(driver, device, stream, as_torch=any(is_torch(array) for array in arrays))


def context_like(driver: GpuDriver, device: int, stream: int | None = None, *, as_torch: bool) -> CallerContext:
    """Return the context of PyTorch, or else of CuPy; see `context_of`."""
    if as_torch:
        handle = _torch_stream(device) if stream is None else stream
        memory = partial(_TorchMemory, device=device, stream=stream)
        return CallerContext(driver.foreign_stream(handle, device), memory, graphs_own_memory=True)
    if stream is None:
        return cupy_caller(driver)
    chosen = driver.foreign_stream(stream, device)
    return CallerContext(chosen, lambda size: driver.allocate(size, chosen))


def cupy_caller(driver: GpuDriver) -> CallerContext:
    """Return the context of CuPy."""
    stream = driver.current_stream()
    return CallerContext(stream, lambda size: driver.allocate(size, stream))


def _torch_stream(device: int) -> int:
    import torch

    return int(torch.cuda.current_stream(device).cuda_stream)


class _TorchMemory:
    """Memory from PyTorch's allocator, on a given stream or PyTorch's current one."""

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
