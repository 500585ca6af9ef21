"""The photograph that demonstrations run on, and writing pictures."""

from __future__ import annotations

import io
import os
from importlib import resources
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from autosched.atomic_files import replacement_of
from autosched.errors import InputError


def load_photo() -> NDArray[np.uint8]:
    """Return the shipped photograph.

    Returns:
        Array [H, W, 3] of RGB values, C-contiguous and writable; 512 x 512.

    Raises:
        InputError: Pillow is not installed.
    """
    encoded = (resources.files("autosched.apps") / "data" / "photo.jpg").read_bytes()
    with _pillow().open(io.BytesIO(encoded)) as image:
        return np.array(image.convert("RGB"), dtype=np.uint8)


def save_png(path: str | os.PathLike[str], array: NDArray[np.uint8]) -> None:
    """Write a picture; a file of that name is replaced whole or not at all.

    Args:
        path: Where to; the directory must exist.
        array: [H, W] of grey values or [H, W, 3] of RGB values.

    Raises:
        InputError: The array is no such picture, the path cannot be written, or Pillow is not installed.
    """
    is_picture = array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 3)
    if array.dtype != np.uint8 or not is_picture or array.size == 0:
        raise InputError(
            f"a picture is a uint8 array [H, W] or [H, W, 3], not {array.dtype} {list(array.shape)}; "
            "scale it to 0..255 and cast it with astype(numpy.uint8)"
        )
    encoded = io.BytesIO()
    _pillow().fromarray(np.ascontiguousarray(array)).save(encoded, format="PNG")
    _replace(Path(path), encoded.getvalue())


def _replace(path: Path, content: bytes) -> None:
    """Replace a file whole or not at all."""
    try:
        with replacement_of(path) as beside:
            beside.write_bytes(content)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror or error}; choose a directory you can write to"
        ) from error


def _pillow() -> ModuleType:
    try:
        import PIL.Image
    except ImportError as error:
        raise InputError(
            f"pictures need Pillow, which cannot be imported ({error}); install autosched[report]"
        ) from error
    return PIL.Image
