"""The integer finaliser behind the language's random numbers.

A bijection of the 32-bit integers: each flipped input bit flips every output bit in about half of the cases. Twice an
xor-shift and a multiplication by an odd number, then a last xor-shift. Shifts and multipliers are those of "lowbias32"
by Chris Wellons (public domain), found by a search for the least bias. The hash of 0 is 0.

Generated code has the same function as `as_hash_u32`.
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
