"""Image pyramids in NumPy, for the references of apps that have one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Box = tuple[tuple[int, int], tuple[int, int]]
"""Half-open ranges of y and of x."""

Phases = tuple[Mapping[int, float], Mapping[int, float]]
"""Weights of coarse pixels by their distance to the one under the fine pixel, for even and for odd fine pixels."""

BETWEEN_PIXELS: Phases = {-1: 0.25, 0: 0.75}, {0: 0.75, 1: 0.25}
ON_PIXELS: Phases = {0: 1.0}, {0: 0.5, 1: 0.5}
BINOMIAL: Phases = {-1: 0.125, 0: 0.75, 1: 0.125}, {0: 0.5, 1: 0.5}


@dataclass(frozen=True, slots=True)
class PyramidLevel:
    """Values at all integer points (y, x): those of an array [..., height, width], repeated beyond its edges.

    Halving the resolution of an image that repeats its edges gives another such image, a little wider than half of
    it, so a pyramid over all integers takes hardly more memory than one inside the image.

    Attributes:
        values: The array.
        origin: Point (y, x) of its first element.
    """

    values: NDArray[Any]
    origin: tuple[int, int] = (0, 0)

    def window(self, box: Box) -> NDArray[Any]:
        """Return the values in a box."""
        rows, columns = (self._positions(axis, np.arange(*box[axis])) for axis in (0, 1))
        return self.values[..., rows[:, None], columns]

    def downsampled(self, weights: Sequence[int]) -> PyramidLevel:
        """Return the next coarser level, where x is centred on 2x or between 2x and 2x + 1; see `pyramid`."""
        scaled = {i - (len(weights) - 1) // 2: w / sum(weights) for i, w in enumerate(weights)}
        level = self
        for axis in (0, 1):
            low, high = level.origin[axis], level.origin[axis] + level.values.shape[axis - 2] - 1
            centres = np.arange((low - max(scaled)) // 2, -((min(scaled) - high) // 2) + 1)
            origin = list(level.origin)
            origin[axis] = int(centres[0])
            level = PyramidLevel(level._filtered(axis, 2 * centres, scaled), (origin[0], origin[1]))
        return level

    def upsampled(self, phases: Phases, box: Box) -> NDArray[Any]:
        """Return the next finer level in a box."""
        level = self
        for axis in (0, 1):
            fine = np.arange(*box[axis])
            parts = [level._filtered(axis, fine[fine % 2 == parity] // 2, phases[parity]) for parity in (0, 1)]
            shape = list(level.values.shape)
            shape[axis - 2] = len(fine)
            values = np.empty(shape, level.values.dtype)
            for parity, part in enumerate(parts):
                np.moveaxis(values, axis - 2, 0)[(fine[0] + parity) % 2 :: 2] = np.moveaxis(part, axis - 2, 0)
            origin = list(level.origin)
            origin[axis] = box[axis][0]
            level = PyramidLevel(values, (origin[0], origin[1]))
        return level.values

    def _filtered(self, axis: int, centres: NDArray[np.intp], weights: Mapping[int, float]) -> NDArray[Any]:
        total = sum(
            np.take(self.values, self._positions(axis, centres + i), axis=axis - 2) * self.values.dtype.type(w)
            for i, w in weights.items()
        )
        return np.asarray(total)

    def _positions(self, axis: int, coordinates: NDArray[np.intp]) -> NDArray[np.intp]:
        return np.clip(coordinates - self.origin[axis], 0, self.values.shape[axis - 2] - 1)


def pyramid(image: NDArray[Any], weights: Sequence[int], levels: int) -> list[PyramidLevel]:
    """Return the Gaussian pyramid of an image [..., height, width] that repeats its edges, finest level first.

    Args:
        image: Its finest level.
        weights: Filter before every halving, divided by its sum.
        levels: Number of levels, the finest included.
    """
    result = [PyramidLevel(image)]
    for _ in range(levels - 1):
        result.append(result[-1].downsampled(weights))
    return result


def boxes(height: int, width: int, levels: int) -> list[Box]:
    """Return the box of every level that upsampling reads for the whole image at the finest level."""
    result: list[Box] = [((0, height), (0, width))]
    for _ in range(levels - 1):
        rows, columns = ((low // 2 - 1, (high - 1) // 2 + 2) for low, high in result[-1])
        result.append((rows, columns))
    return result


def origin_of(box: Box) -> tuple[int, int]:
    """Return the first point of a box."""
    return box[0][0], box[1][0]
