"""Loads and stores at computed indices, by slices if possible, else by gathers and scatters.

An index is a NumPy scalar or an array with one axis per loop. An access is separable if each index varies along a loop
of its own: an index that is an arithmetic progression becomes a slice, any other index a 1-D take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.reference.buffers import Array, Value


def read(array: Array, origin: tuple[int, ...], *indices: Value) -> Value:
    """Return ``array`` at the indices with the rank of the loop nest, as a view if possible."""
    separable = _separate(array.shape, origin, indices)
    if separable is None:
        return array.reshape(-1).take(flat_index(array.shape, origin, indices))
    view: Array = array[separable.parts]
    for position, vector in enumerate(separable.vectors):
        if vector is not None:
            view = view.take(vector, axis=position)
    return separable.arrange(view)


def read_nearest(array: Array, origin: tuple[int, ...], *indices: Value) -> Value:
    """Return ``array`` at the indices, or at the nearest ones inside it, with the rank of the loop nest."""
    inside = []
    for index, low, size in zip(indices, origin, array.shape, strict=True):
        position = np.asarray(index)
        if position.dtype == np.uint64:
            position = np.minimum(position, np.uint64(2**63 - 1))
        inside.append(np.clip(position.astype(np.int64), low, low + size - 1))
    return read(array, origin, *inside)


def write(array: Array, origin: tuple[int, ...], indices: tuple[Value, ...], value: Value) -> None:
    """Store ``value`` at the indices; the last value (in C order) for a point remains."""
    separable = _separate(array.shape, origin, indices)
    if separable is not None and all(v is None for v in separable.vectors):
        view = separable.arrange(array[separable.parts])
        if np.broadcast_shapes(view.shape, np.shape(value)) == view.shape:
            view[...] = value
            return
    at, values = np.broadcast_arrays(flat_index(array.shape, origin, indices), value)
    array.reshape(-1)[at.reshape(-1)] = values.reshape(-1)  # in one dimension NumPy stores in order


def flat_index(shape: tuple[int, ...], origin: tuple[int, ...], indices: tuple[Value, ...]) -> Array:
    """Return positions in the flattened array, broadcast over the loops of the indices."""
    terms: list[Array] = []
    stride = 1
    for index, low, size in zip(reversed(indices), reversed(origin), reversed(shape), strict=True):
        position = np.asarray(index, dtype=np.int64) - low
        _check(int(position.min()), int(position.max()), size)
        terms.append(position * stride)
        stride *= size
    flat = np.zeros((), np.int64)
    for term in sorted(terms, key=np.size):  # small terms first: fewer additions at full size
        flat = flat + term
    return np.asarray(flat)


@dataclass(frozen=True, slots=True)
class _Separable:
    """A separable access: the basic index, then the take and the loop of each remaining dimension.

    The basic index ends with an ellipsis, so that a single element is a view as well and can be written.
    """

    parts: tuple[Any, ...]
    vectors: list[Array | None]
    axes: list[int]
    rank: int

    def arrange(self, view: Array) -> Array:
        """Return the dimensions in the order of the loops, with axes of length 1 for loops without a dimension."""
        if len(self.axes) > 1:
            view = view.transpose(sorted(range(len(self.axes)), key=self.axes.__getitem__))
        present = set(self.axes)
        return view[(*(slice(None) if axis in present else None for axis in range(self.rank)), ...)]


def _separate(shape: tuple[int, ...], origin: tuple[int, ...], indices: tuple[Value, ...]) -> _Separable | None:
    parts: list[int | slice] = []
    vectors: list[Array | None] = []
    axes: list[int] = []
    rank = 0
    for index, low, size in zip(indices, origin, shape, strict=True):
        lengths = index.shape
        rank = max(rank, len(lengths))
        varies = [axis for axis, n in enumerate(lengths) if n > 1]
        if not varies:
            position = int(index.item()) - low
            _check(position, position, size)
            parts.append(position)
            continue
        if len(varies) > 1 or varies[0] in axes:
            return None
        vector = index.reshape(-1).astype(np.int64, copy=False) - low
        part = _as_progression(vector, size)
        parts.append(part if part is not None else slice(None))
        if not isinstance(part, int):
            vectors.append(None if part is not None else vector)
            axes.append(varies[0])
    return _Separable((*parts, ...), vectors, axes, rank)


def _as_progression(vector: Array, size: int) -> int | slice | None:
    """Return the position or slice of an arithmetic progression, None for any other vector."""
    n = len(vector)
    first, second, last = int(vector[0]), int(vector[1]), int(vector[-1])
    step = second - first
    if last - first != step * (n - 1) or not (vector[1:] - vector[:-1] == step).all():
        _check(int(vector.min()), int(vector.max()), size)
        return None
    _check(min(first, last), max(first, last), size)
    if step == 0:
        return first
    stop = last + (1 if step > 0 else -1)
    return slice(first, stop if stop >= 0 else None, step)


def _check(low: int, high: int, size: int) -> None:
    """Raise if positions are outside of an array; NumPy would wrap negative ones around."""
    if low < 0 or high >= size:
        raise IndexError(f"positions {low} to {high} of {size} elements: the domain was derived too small")
