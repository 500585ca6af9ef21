"""Element type, shape and place of a caller's array, before a pipeline says what they should be."""

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
    """What a kernel is made for.

    Attributes:
        dtype: Element type.
        shape: Extents, outermost first.
        device: Where the array lies.
    """

    dtype: DType
    shape: tuple[int, ...]
    device: ArrayDevice


def signature_of(value: Any, name: str) -> ArraySignature | None:
    """Return the form of an array of any framework; None for a value that is no array.

    Args:
        value: What the caller passed.
        name: Its name, for messages.

    Raises:
        InputError: If its elements have a type that pipelines do not know.
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
        value = np.from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value)  # neither copies
    try:
        return ArraySignature(as_dtype(value.dtype), tuple(int(n) for n in value.shape), device)
    except DSLError:
        raise _refusal(name, value.dtype) from None


def common_device(forms: Mapping[str, ArraySignature]) -> ArrayDevice:
    """Return where some arrays lie; the CPU if there are none.

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
