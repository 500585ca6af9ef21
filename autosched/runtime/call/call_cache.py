"""Calls on arrays that were checked before: what a check looks at is compared, and not checked again.

Checking a call's arrays one by one takes ten times as long as launching a kernel. A caller who passes CuPy arrays or
PyTorch tensors of the same form as before, at the same addresses, needs no second check: whatever it would look at is
part of the key under which the first one is remembered.
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

MOST_KNOWN = 256
"""Calls that are remembered; with one more, all are forgotten."""


@dataclass(frozen=True, slots=True)
class ValidatedCall:
    """A call that was checked.

    Attributes:
        sequence: What it launches.
        prepared: On what.
        device: Number of the GPU on which its arrays lie.
        as_torch: Whether the caller works with PyTorch.
    """

    sequence: LaunchSequence
    prepared: PreparedCall
    device: int
    as_torch: bool

    def run(self, driver: GpuDriver, stream: int | None = None) -> None:
        """Launch it on the caller's current stream, or on one by its handle.

        Raises:
            LaunchError: If the driver refuses, or memory runs out.
        """
        with driver.on_device(self.device):
            caller = context_like(driver, self.device, stream, as_torch=self.as_torch)
            self.sequence.run_prepared(self.prepared, self.device, caller)


class ValidatedCalls:
    """The calls of a pipeline that were checked, and the devices of inputs that were."""

    def __init__(self) -> None:
        self._calls: dict[Form, ValidatedCall] = {}
        self._devices: dict[Form, int] = {}

    def find(self, key: Form | None) -> ValidatedCall | None:
        """Return the call of a key, or None if it is not known."""
        return None if key is None else self._calls.get(key)

    def device_of(self, inputs: Form | None) -> int | None:
        """Return the GPU of inputs that were part of a call, or None if they are not known."""
        return None if inputs is None else self._devices.get(inputs)

    def add(self, inputs: Form, key: Form, call: ValidatedCall) -> None:
        """Remember a call by the forms of its inputs, and of all it was made with."""
        if len(self._calls) >= MOST_KNOWN:
            self._calls.clear()
            self._devices.clear()
        self._devices[inputs] = call.device
        self._calls[key] = call


def forms_of(arrays: Iterable[Any]) -> Form | None:
    """Return all that checks look at in some arrays, or None if one is not CuPy's or PyTorch's on a GPU.

    Those of other frameworks may have to be waited for, and those in host memory are copied: they are looked at anew.
    """
    cupy, torch = sys.modules.get("cupy"), sys.modules.get("torch")
    found: list[Hashable] = []
    for a in arrays:
        if cupy is not None and type(a) is cupy.ndarray:
            memory = a.data
            found.append((memory.ptr, memory.device_id, a.dtype, a.shape, a.strides))
        elif torch is not None and type(a) is torch.Tensor and a.is_cuda and a.layout is torch.strided:
            unusual = a.requires_grad or a.is_neg() or a.is_conj()
            found.append((a.data_ptr(), a.device, a.dtype, a.shape, a.stride(), unusual))
        else:
            return None
    return tuple(found)
