"""Arrays of any element type in a form that NumPy's assertions compare."""

from __future__ import annotations

from typing import Any

import numpy as np

from autosched.lang.dtypes import bfloat16

Array = np.ndarray[Any, Any]


def comparable(array: Array) -> Array:
    """Return an array with the same values: of bfloat16, whose NaN NumPy's assertions do not find, one of float32."""
    return array.astype(np.float32) if array.dtype == bfloat16.numpy else array


def assert_same_numbers(found: Array, expected: Array, what: str = "") -> None:
    """Check types, values and signs of zeros; all NaN are alike."""
    assert found.dtype == expected.dtype, what
    a, b = comparable(np.asarray(found)), comparable(np.asarray(expected))
    np.testing.assert_array_equal(a, b, err_msg=what)
    numbers = b == b
    np.testing.assert_array_equal(np.signbit(a[numbers]), np.signbit(b[numbers]), err_msg=what)
