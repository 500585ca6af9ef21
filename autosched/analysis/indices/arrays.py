"""Arithmetic on arrays of indices, exact where intermediate values exceed 64 bits.

Coordinates of intermediate Funcs and loads of 64-bit integers are unbounded until a clamp or select: the ends of their
ranges lie beyond int64. Operands of such operations are arrays of Python integers; results that fit are int64 again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_LARGEST = 1 << 62
"""The sum of two integers up to this fits 64 bits."""
_LARGEST_FACTOR = 1 << 24
"""Ranges of loops times factors up to this fit 64 bits."""


def added(a: Any, b: Any) -> Any:
    """Return the sum of two arrays, or of an array and an integer."""
    return _narrowed(_operand(a) + _operand(b))


def multiplied(a: Any, b: Any) -> Any:
    """Return the product of two arrays, or of an array and an integer."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        is_wide = _magnitude(a) * _magnitude(b) > _LARGEST
    else:
        is_wide = abs(b if isinstance(a, np.ndarray) else a) > _LARGEST_FACTOR
    return _narrowed(_as_wide(a) * _as_wide(b)) if is_wide else _narrowed(a * b)


def smaller(a: Any, b: Any) -> Any:
    """Return the minimum of two arrays, or of an array and an integer."""
    return _narrowed(np.minimum(_operand(a), _operand(b)))


def larger(a: Any, b: Any) -> Any:
    """Return the maximum of two arrays, or of an array and an integer."""
    return _narrowed(np.maximum(_operand(a), _operand(b)))


def _operand(a: Any) -> Any:
    """Return an operand; a large integer as an array of Python integers."""
    return a if isinstance(a, np.ndarray) or -_LARGEST <= a <= _LARGEST else np.array(int(a), dtype=object)


def _as_wide(a: Any) -> Any:
    return a.astype(object) if isinstance(a, np.ndarray) else int(a)


def _magnitude(a: Any) -> int:
    return max(abs(int(a.min())), abs(int(a.max()))) if a.size else 0


def _narrowed(a: Any) -> Any:
    """Return an array as int64 if all its values fit."""
    if isinstance(a, np.ndarray) and a.dtype == object and _magnitude(a) <= _LARGEST:
        return a.astype(np.int64)
    return a
