"""Literals of constants that C, C++ and CUDA parse to the same bits."""

from __future__ import annotations

import math

import numpy as np

from autosched.lang.dtypes import DType, float64


def float_literal(value: float, dtype: DType) -> str:
    """Return the shortest C literal of `value` rounded to the type.

    Infinities and NaN are macros of the scalar prelude. A float16 or bfloat16 is written as a float32 of the
    same value.

    Args:
        value: Any number; NaNs lose sign and payload.
        dtype: A floating-point type.

    >>> from autosched.lang.dtypes import float16, float32
    >>> float_literal(0.1, float32), float_literal(-2.0, float64), float_literal(0.1, float16)
    ('0.1f', '-2.0', '0.099975586f')
    >>> float_literal(-math.inf, float32)
    '(-AS_INF_F32)'
    """
    macro = "F64" if dtype == float64 else "F32"
    if math.isnan(value):
        return f"AS_NAN_{macro}"
    with np.errstate(over="ignore"):  # a number too large for the type is infinity there
        rounded = dtype.scalar(value)
    if np.isinf(rounded):
        return f"AS_INF_{macro}" if value > 0 else f"(-AS_INF_{macro})"
    if dtype == float64:
        return repr(float(rounded))
    return f"{np.float32(rounded)!s}f"


def int_literal(value: int, dtype: DType) -> str:
    """Return a C literal of an integer or bool constant.

    Args:
        value: A number within the type's range.
        dtype: An integer type or bool.

    >>> from autosched.lang.dtypes import int32, uint64
    >>> int_literal(-7, int32), int_literal(7, uint64), int_literal(int32.min_value, int32)
    ('-7', '7ull', '(-2147483647 - 1)')
    """
    suffix = ("u" if dtype.kind == "u" and dtype.bits >= 32 else "") + ("ll" if dtype.bits == 64 else "")
    if value == dtype.min_value < 0 and dtype.bits >= 32:  # in C this is the negation of a number out of range
        return f"(-{-(value + 1)}{suffix} - 1{suffix})"
    return f"{value}{suffix}"
