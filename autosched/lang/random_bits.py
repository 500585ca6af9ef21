"""The integer finaliser behind the language's random numbers.

A bijection of the 32-bit integers in which every input bit, flipped, flips every output bit in half of the cases to
within a percent. Its form is the common one of xor-shift and multiplication by an odd number, twice, and a last
xor-shift; the shifts and multipliers are those that Chris Wellons found by a search for the least bias and gave to the
public domain as "lowbias32". 0 goes to 0.

The generated code has the same function as `as_hash_u32`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def hash_u32_numpy(values: NDArray[Any]) -> NDArray[np.uint32]:
    """Return the hash of each element.

    Args:
        values: Integers of any shape, taken modulo 2**32.

    >>> hash_u32_numpy(np.array([0, 1, 2])).tolist()
    [0, 1753845952, 3507691905]
    """
    x = np.asarray(values).astype(np.uint32)  # a copy
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    return x
