"""A GPU for tests: tensors of ``cuda:0`` in host memory, CuPy's views of them, and a driver that emulates."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.utils._pytree import tree_map

import autosched
from autosched.codegen.cuda import print_cuda
from autosched.torch import region_code
from tests.emulated_device import EmulatedDevice

GPU = torch.device("cuda", 0)
STREAM = 77
"""Handle of PyTorch's current stream."""


class HostBackedTensor(torch.Tensor):
    """A tensor that says it lies on a GPU; operators compute on the tensor of the host behind it."""

    host: torch.Tensor

    @staticmethod
    def __new__(cls, host: torch.Tensor) -> HostBackedTensor:
        made: HostBackedTensor = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, host.shape, strides=host.stride(), storage_offset=host.storage_offset(), dtype=host.dtype, device=GPU
        )
        made.host = host
        return made

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self.host.data_ptr()

    def tolist(self) -> Any:
        """Return the elements, as a copy to the host."""
        return self.host.tolist()

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compute on the host; results lie on the GPU."""
        keywords = {k: v for k, v in (kwargs or {}).items() if k != "device"}
        args, keywords = tree_map(lambda v: v.host if isinstance(v, HostBackedTensor) else v, (args, keywords))
        result = function(*args, **keywords)
        return tree_map(lambda v: HostBackedTensor(v) if isinstance(v, torch.Tensor) else v, result)


class _View:
    """CuPy's view of a contiguous array."""

    def __init__(self, pointer: int, dtype: np.dtype[Any], shape: tuple[int, ...], owner: object, device: int) -> None:
        self.data = SimpleNamespace(ptr=pointer)
        self.device = SimpleNamespace(id=device)
        self.dtype, self.shape = dtype, shape
        self.nbytes = int(np.prod(shape)) * dtype.itemsize
        self.flags = SimpleNamespace(c_contiguous=True)


class RecordingDevice(EmulatedDevice):
    """An emulated GPU that lists the streams of its launches."""

    def __init__(self) -> None:
        super().__init__(())
        self.streams: list[int] = []
        self.names: list[str] = []

    def launch(self, function: str, grid: Any, block: Any, arguments: Any, shared_bytes: int, stream: Any) -> None:
        """Run a kernel in the emulator."""
        if stream.recorded is None:
            self.streams.append(stream.ptr)
            self.names.append(function)
        super().launch(function, grid, block, arguments, shared_bytes, stream)


@contextmanager
def emulated_gpu() -> Iterator[RecordingDevice]:
    """Give this machine a GPU: an H200 whose kernels are compiled by NVRTC and run by the emulator."""
    device = RecordingDevice()
    schedule = region_code.scheduled_pipeline

    def scheduled(*arguments: Any) -> Any:
        result = schedule(*arguments)
        device.kernels |= {k.name: k for k in map(print_cuda, result.program.kernels)}
        return result

    streams = SimpleNamespace(cuda_stream=STREAM, synchronize=lambda: None)
    patches: list[Any] = [
        mock.patch.dict(sys.modules, {"cupy": SimpleNamespace(ndarray=_View)}),
        mock.patch("autosched.runtime.call.buffers.cupy_view", _View),
        mock.patch("autosched.runtime.backends.cuda.gpu_driver", lambda: device),
        mock.patch("autosched.runtime.call.launcher.gpu_driver", lambda: device),
        mock.patch.object(autosched.Target, "detect", lambda index=None: autosched.get_target("h200")),
        mock.patch.object(region_code, "scheduled_pipeline", scheduled),
        mock.patch.object(torch.cuda, "current_stream", lambda device=None: streams),
        mock.patch.object(torch.cuda, "device", lambda device: nullcontext()),
        mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: False),
        mock.patch.object(torch, "empty_strided", _made(torch.empty_strided)),
        mock.patch.object(torch, "empty", _made(torch.empty)),
        mock.patch.object(torch, "full", _made(torch.full)),
    ]
    with mock.patch.object(torch.Tensor, "to", _moved(torch.Tensor.to)):
        for patch in patches:
            patch.start()
        try:
            yield device
        finally:
            for patch in reversed(patches):
                patch.stop()


def _is_gpu(device: Any) -> bool:
    return device is not None and torch.device(device).type == "cuda"


def _made(factory: Callable[..., Any]) -> Callable[..., Any]:
    """Return a factory that makes tensors of the GPU in host memory."""

    def make(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        if not _is_gpu(device) or torch._C._len_torch_dispatch_stack():  # a mode has tensors without data
            return factory(*args, device=device, **kwargs)
        return HostBackedTensor(factory(*args, **kwargs))

    return make


def _moved(to: Callable[..., Any]) -> Callable[..., Any]:
    def move(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], torch.device) and _is_gpu(args[0]) and tensor.device.type == "cpu":
            return HostBackedTensor(tensor.clone())
        return to(tensor, *args, **kwargs)

    return move
