"""Cache of validated calls.

Validating a call's arrays takes much longer than launching a kernel. CuPy arrays and PyTorch tensors of the same form
at the same addresses are not validated again: the cache key holds every property that the validation reads.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from autosched.runtime.backends.gpu_driver import GpuDriver
from autosched.runtime.call.caller_context import context_like
from autosched.runtime.call.launcher import LaunchSequence, PreparedCall

Form = tuple[Hashable, ...]

MAX_CACHED_CALLS = 256
"""Capacity of the cache; the next entry after that clears it."""


@dataclass(frozen=True, slots=True)
class ValidatedCall:
    """A validated call.

    Attributes:
        sequence: The launches.
        prepared: Pointers and scalars.
        device: Number of the arrays' GPU.
        as_torch: Whether the caller works with PyTorch.
    """

    sequence: LaunchSequence
    prepared: PreparedCall
    device: int
    as_torch: bool

    def run(self, driver: GpuDriver, stream: int | None = None) -> None:
        """Launch it on the caller's current stream, or on the stream with this handle.

        Raises:
            LaunchError: If the driver refuses, or memory runs out.
        """
        with driver.on_device(self.device):
            caller = context_like(driver, self.device, stream, as_torch=self.as_torch)
            self.sequence.run_prepared(self.prepared, self.device, caller)


class ValidatedCalls:
    """Validated calls of a pipeline, and devices of validated inputs."""

    def __init__(self) -> None:
        self._calls: dict[Form, ValidatedCall] = {}
        self._devices: dict[Form, int] = {}

    def find(self, key: Form | None) -> ValidatedCall | None:
        """Return the cached call of a key, or None."""
        return None if key is None else self._calls.get(key)

    def device_of(self, inputs: Form | None) -> int | None:
        """Return the GPU of inputs that were part of a cached call, or None."""
        return None if inputs is None else self._devices.get(inputs)

    def add(self, inputs: Form, key: Form, call: ValidatedCall) -> None:
        """Cache a call under its key, and its device under the forms of its inputs."""
        if len(self._calls) >= MAX_CACHED_CALLS:
            self._calls.clear()
            self._devices.clear()
        self._devices[inputs] = call.device
        self._calls[key] = call


def forms_of(arrays: Iterable[Any]) -> Form | None:
    """Return all properties that validation reads; None unless all arrays are CuPy's or PyTorch's on a GPU.

    Arrays of other frameworks may need synchronisation, and arrays in host memory are copied, at every call.
    """
    cupy, torch = sys.modules.get("cupy"), sys.modules.get("torch")
    forms: list[Hashable] = []
    for a in arrays:
        if cupy is not None and type(a) is cupy.ndarray:
            memory = a.data
            forms.append((memory.ptr, memory.device_id, a.dtype, a.shape, a.strides))
        elif torch is not None and type(a) is torch.Tensor and a.is_cuda and a.layout is torch.strided:
            unusual = a.requires_grad or a.is_neg() or a.is_conj()
            forms.append((a.data_ptr(), a.device, a.dtype, a.shape, a.stride(), unusual))
        else:
            return None
    return tuple(forms)
