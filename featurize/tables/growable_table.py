"""Hashes of integer rows, and growable tables of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_MIX = np.random.default_rng(20210721).integers(1 << 62, size=4096, dtype=np.int64) | 1
MIN_CAPACITY = 64


def hash_rows(parts: Sequence[Ints], first: int = 0) -> Ints:
    """Return a random linear form modulo 2**64 of each row; different rows collide with probability 2**-63.

    Args:
        parts: Columns of the rows, ``int64[N, ...]`` each; trailing zeros do not change the hash.
        first: First coefficient of the form; forms of disjoint coefficients are independent.
    """
    rows = [p.reshape(len(p), -1) if p.ndim != 2 else p for p in parts]
    whole = rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1)
    with np.errstate(over="ignore"):
        hashes: Ints = whole @ _MIX[first : first + whole.shape[1]]
    return hashes


def hash_coefficients(which: Ints) -> Ints:
    """Return random odd coefficients by number, for linear forms of hashes."""
    return _MIX[-1 - which]


class GrowableArray:
    """Rows of one shape in an array with spare capacity."""

    def __init__(self, shape: tuple[int, ...] = ()) -> None:
        self._buffer: Ints = np.zeros((MIN_CAPACITY, *shape), np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> Ints:
        """All rows; invalid after `extend`."""
        return self._buffer[: self._count]

    def extend(self, rows: NDArray[Any]) -> int:
        """Append rows and return the position of the first."""
        start, self._count = self._count, self._count + len(rows)
        if self._count > len(self._buffer):
            grown = np.zeros((max(2 * len(self._buffer), self._count), *self._buffer.shape[1:]), self._buffer.dtype)
            grown[:start] = self._buffer[:start]
            self._buffer = grown
        self._buffer[start : self._count] = rows
        return start


class TableRows:
    """Rows of a `DescriptorTable` by column name: ``int64[N]``, or ``int64[N, width]`` for wider columns."""

    def __init__(self, rows: Ints, where: Mapping[str, slice | int]) -> None:
        self._rows = rows
        self._where = where

    def __getitem__(self, name: str) -> Ints:
        return self._rows[:, self._where[name]]

    def take(self, rows: Ints | NDArray[np.bool_]) -> TableRows:
        """Return some of the rows."""
        return TableRows(self._rows[rows], self._where)


class DescriptorTable:
    """Interned static facts, one row of integers for each object.

    Args:
        widths: Number of integers by column name; 0 stands for a single one without an axis of its own.
    """

    def __init__(self, **widths: int) -> None:
        self._where: dict[str, slice | int] = {}
        position = 0
        for name, width in widths.items():
            self._where[name] = slice(position, position + width) if width else position
            position += max(width, 1)
        self._rows = GrowableArray((position,))
        self._numbers: dict[object, int] = {}
        self._width = position

    def find(self, key: object) -> int | None:
        """Return the number of the row with a key, if there is one."""
        return self._numbers.get(key)

    def add(self, key: object, **values: int | Sequence[int]) -> int:
        """Append a row with a value for every column, and return its number."""
        row = np.zeros((1, self._width), np.int64)
        for name, where in self._where.items():
            row[0, where] = values[name]
        number = self._numbers[key] = self._rows.extend(row)
        return number

    def of(self, numbers: Ints) -> TableRows:
        """Return rows by number."""
        return TableRows(self._rows.rows[numbers], self._where)
