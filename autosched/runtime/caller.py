"""How the caller works on the GPU: stream and memory of CuPy or of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from autosched.errors import LaunchError
from autosched.runtime.foreign import is_torch
from autosched.runtime.gpu_driver import DeviceMemory, GpuDriver, Stream


@dataclass(frozen=True, slots=True)
class Caller:
    """How the caller works on the GPU, so that the pipeline works the same way.

    Attributes:
        stream: The stream on which the caller's arrays are made and read.
        allocate: Returns memory of so many bytes, from the pool of the caller's framework.
        graphs_own_memory: Whether what is allocated during a capture stays with the captured graph.
    """

    stream: Stream
    allocate: Callable[[int], DeviceMemory]
    graphs_own_memory: bool = False


def caller_of(arrays: Iterable[object], driver: GpuDriver, device: int) -> Caller:
    """Return the stream and memory of whoever made `arrays`: PyTorch's for tensors, else CuPy's."""
    if any(is_torch(array) for array in arrays):
        stream = driver.foreign_stream(_torch_stream(device), device)
        return Caller(stream, lambda size: _TorchMemory(size, device), graphs_own_memory=True)
    return cupy_caller(driver)


def cupy_caller(driver: GpuDriver) -> Caller:
    """Return the stream and memory of a caller who works with CuPy."""
    stream = driver.current_stream()
    return Caller(stream, lambda size: driver.allocate(size, stream))


def _torch_stream(device: int) -> int:
    import torch

    return int(torch.cuda.current_stream(device).cuda_stream)


class _TorchMemory:
    """Memory from PyTorch's allocator, on its current stream."""

    def __init__(self, size: int, device: int) -> None:
        import torch

        try:
            self._tensor = torch.empty(size, dtype=torch.uint8, device=f"cuda:{device}")
        except torch.cuda.OutOfMemoryError as error:
            raise LaunchError(f"allocating {size} bytes for intermediate arrays failed: {error}") from error

    @property
    def ptr(self) -> int:
        """Address of its first byte."""
        return self._tensor.data_ptr()
