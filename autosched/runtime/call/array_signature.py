"""Element type, shape and device of a caller's array, independent of any pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.errors import DSLError, InputError
from autosched.lang.dtypes import BY_NAME, DType, as_dtype
from autosched.runtime.call.frameworks import ArrayDevice, device_of, is_torch


@dataclass(frozen=True, slots=True)
class ArraySignature:
    """Properties of an array for which a kernel is compiled.

    Attributes:
        dtype: Element type.
        shape: Extents, outermost first.
        device: The array's device.
    """

    dtype: DType
    shape: tuple[int, ...]
    device: ArrayDevice


def signature_of(value: Any, name: str) -> ArraySignature | None:
    """Return the signature of an array of any framework; None for a value that is no array.

    Args:
        value: The caller's argument.
        name: Its name, for messages.

    Raises:
        InputError: If no pipeline has this element type.
    """
    device = device_of(value)
    if device is None:
        return None
    if is_torch(value):
        element = str(value.dtype).removeprefix("torch.")
        if element not in BY_NAME:
            raise _refusal(name, element)
        return ArraySignature(BY_NAME[element], tuple(int(n) for n in value.shape), device)
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        value = np.from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value)  # neither makes a copy
    try:
        return ArraySignature(as_dtype(value.dtype), tuple(int(n) for n in value.shape), device)
    except DSLError:
        raise _refusal(name, value.dtype) from None


def common_device(forms: Mapping[str, ArraySignature]) -> ArrayDevice:
    """Return the device of some arrays; the CPU if there are none.

    Raises:
        InputError: If they do not all lie on one device.
    """
    devices = {form.device: name for name, form in forms.items()}
    if len(devices) > 1:
        places = ", ".join(f"{name!r} on {device}" for device, name in devices.items())
        raise InputError(f"the arrays of a call lie on several devices: {places}; copy them to one of these")
    return next(iter(devices), ArrayDevice("cpu"))


def _refusal(name: str, element: object) -> InputError:
    return InputError(f"array {name!r} has elements of type {element}; pipelines know {', '.join(BY_NAME)}")
