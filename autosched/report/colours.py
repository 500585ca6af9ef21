"""Distinct colours of kernels, all light enough for black text."""

from __future__ import annotations

import colorsys

GOLDEN_RATIO = 0.618034
FIRST_HUE = 0.58
LIGHTNESS = (0.80, 0.88, 0.74)
SATURATION = 0.62


def kernel_colour(number: int) -> str:
    """Return the colour of a kernel as ``#rrggbb``.

    Hues advance by the golden ratio, so that consecutive kernels have different colours.
    """
    hue = (FIRST_HUE + number * GOLDEN_RATIO) % 1
    rgb = colorsys.hls_to_rgb(hue, LIGHTNESS[number % len(LIGHTNESS)], SATURATION)
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb)
