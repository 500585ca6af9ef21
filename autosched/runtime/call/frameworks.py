"""Recognise the arrays of other frameworks without importing the frameworks."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

# device types of DLPack, from dlpack.h
_DLPACK_CPU = frozenset({1, 3, 11})  # kDLCPU, kDLCUDAHost, kDLROCMHost: memory that the CPU reads
_DLPACK_CUDA = frozenset({2, 13})  # kDLCUDA, kDLCUDAManaged


@dataclass(frozen=True, slots=True)
class ArrayDevice:
    """The device of an array.

    Attributes:
        kind: "cpu", "cuda", or a framework's name of another device, such as "mps".
        index: Number of the GPU; 0 on the CPU.
    """

    kind: str
    index: int = 0

    def __str__(self) -> str:
        return "the CPU" if self.kind == "cpu" else f"{self.kind}:{self.index}"


def is_torch(value: object) -> bool:
    """Whether a value is a PyTorch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_cupy(value: object) -> bool:
    """Whether a value is a CuPy array."""
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(value, cupy.ndarray)


def device_of(value: Any) -> ArrayDevice | None:
    """Return the device of a caller's array; None for a value that is no array."""
    if isinstance(value, np.ndarray):
        return ArrayDevice("cpu")
    if is_torch(value):
        return ArrayDevice(value.device.type, value.device.index or 0)
    if is_cupy(value):
        return ArrayDevice("cuda", value.device.id)
    if hasattr(value, "__dlpack_device__"):
        kind, index = value.__dlpack_device__()
        if int(kind) in _DLPACK_CPU:
            return ArrayDevice("cpu")
        return ArrayDevice("cuda" if int(kind) in _DLPACK_CUDA else f"DLPack device type {int(kind)}", index)
    if hasattr(value, "__cuda_array_interface__"):
        return ArrayDevice("cuda")
    if hasattr(value, "__array_interface__") or _has_buffer(value):
        return ArrayDevice("cpu")
    return None


def on_gpu(value: object) -> bool:
    """Whether a caller's array is in the memory of an NVIDIA GPU."""
    device = device_of(value)
    return device is not None and device.kind == "cuda"


def _has_buffer(value: Any) -> bool:
    """Whether a value exports Python's buffer protocol."""
    try:
        memoryview(value).release()
    except TypeError:
        return False
    return True
