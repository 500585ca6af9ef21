"""Input images of any size, made from the photograph that the package ships."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autosched.apps.photo import load_photo

DARKEST, BRIGHTEST = 8 / 255, 247 / 255
"""Range of the images; no pixel is black, as some apps divide by the brightness."""

LUMA_WEIGHTS = (0.299, 0.587, 0.114)
"""Share of red, green and blue in the brightness of a pixel."""


def rgb_image(height: int, width: int, seed: int = 0) -> NDArray[np.float32]:
    """Return the photograph as float32 [3, height, width] in [`DARKEST`, `BRIGHTEST`].

    A larger image is filled with mirrored copies, a smaller one samples the whole photograph.

    Args:
        height: Rows.
        width: Columns.
        seed: 0 begins at the photograph's corner, any other number at a pseudo-random place.
    """
    photo = load_photo()
    rng = np.random.default_rng(seed)
    step = max(1.0, min(photo.shape[0] / height, photo.shape[1] / width))
    rows, columns = (
        _mirrored(count, extent, step, int(rng.integers(extent)) if seed else 0)
        for count, extent in ((height, photo.shape[0]), (width, photo.shape[1]))
    )
    picture = photo[rows[:, None], columns].transpose(2, 0, 1).astype(np.float32)
    return np.ascontiguousarray(picture * np.float32((BRIGHTEST - DARKEST) / 255) + np.float32(DARKEST))


def gray_image(height: int, width: int, seed: int = 0) -> NDArray[np.float32]:
    """Return the photograph's brightness as float32 [height, width]; see `rgb_image`."""
    return luma(rgb_image(height, width, seed))


def gray_image_u16(height: int, width: int, bits: int, seed: int = 0) -> NDArray[np.uint16]:
    """Return the photograph's brightness as uint16 [height, width] that uses the lowest ``bits`` bits."""
    levels: NDArray[np.float32] = np.rint(gray_image(height, width, seed) * np.float32((1 << bits) - 1))
    return levels.astype(np.uint16)


def luma(rgb: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the brightness [height, width] of an image [3, height, width]."""
    red, green, blue = LUMA_WEIGHTS
    brightness: NDArray[np.float32] = red * rgb[0] + green * rgb[1] + blue * rgb[2]
    return brightness


def _mirrored(count: int, extent: int, step: float, offset: int) -> NDArray[np.intp]:
    """Return ``count`` positions in ``range(extent)`` at a distance of ``step``, mirrored at the ends."""
    i = ((np.arange(count) * step).astype(np.intp) + offset) % (2 * extent)
    return np.minimum(i, 2 * extent - 1 - i)
