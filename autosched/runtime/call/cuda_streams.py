"""Streams of any framework, by the driver's handle."""

from __future__ import annotations

import operator
from typing import Any

from autosched.errors import InputError

_LEGACY_STREAM = 1
"""Second handle of the default stream, besides 0."""


def stream_handle(stream: object) -> int:
    """Return the driver's handle of a CUDA stream.

    Args:
        stream: A handle as an integer, a CuPy stream, a PyTorch stream, or anything with ``__cuda_stream__``.

    Raises:
        InputError: If the value is no stream.
    """
    handle = _handle_of(stream)
    if handle < 0:
        raise InputError(f"stream {stream!r} is no handle of a CUDA stream: handles are not negative")
    return 0 if handle == _LEGACY_STREAM else handle


def _handle_of(stream: Any) -> int:
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        _, handle = protocol() if callable(protocol) else protocol  # older versions of cuda.core have a property
        return int(handle)
    for attribute in ("ptr", "cuda_stream"):  # CuPy, PyTorch
        if isinstance(handle := getattr(stream, attribute, None), int):
            return handle
    try:
        if not isinstance(stream, bool):
            return operator.index(stream)
    except TypeError:
        pass
    raise InputError(
        f"a {type(stream).__qualname__} is no CUDA stream: pass a handle, a CuPy or PyTorch stream, an object with "
        "__cuda_stream__, or None for the current one"
    )
