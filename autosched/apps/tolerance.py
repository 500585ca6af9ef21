"""Allowed difference of a result from an independently computed one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Allowed difference from the expected array; none by default.

    Args:
        rtol: Allowed error relative to the expected element.
        atol: Allowed absolute error in addition, in the array's units.
        bad_fraction: Share of the elements that may exceed ``rtol`` and ``atol``, for comparisons that rounding flips.
        hard_atol: Absolute error that no element may exceed.
    """

    rtol: float = 0.0
    atol: float = 0.0
    bad_fraction: float = 0.0
    hard_atol: float = math.inf

    def mismatch(self, got: NDArray[Any], expected: NDArray[Any]) -> str | None:
        """Return the disagreement of ``got`` in one sentence, None if it agrees.

        Equal infinities agree, as do NaNs.
        """
        if got.dtype != expected.dtype:
            return f"dtype {got.dtype}, expected {expected.dtype}"
        if got.shape != expected.shape:
            return f"shape {got.shape}, expected {expected.shape}"
        # Beyond 53 bits a 64-bit integer could be rounded to an equal double, so unequal elements stay unequal.
        same = (got == expected) | ((got != got) & (expected != expected))
        a, b = got.astype(np.float64), expected.astype(np.float64)
        with np.errstate(invalid="ignore"):
            error = np.where(same, 0.0, np.abs(a - b))
            near = (error <= self.atol + self.rtol * np.abs(b)) & np.isfinite(a) & np.isfinite(b)
        bad = ~(same | (near if self.rtol or self.atol else False))
        error = np.where(bad, np.nan_to_num(error, nan=np.inf), 0.0)
        if np.count_nonzero(bad) <= self.bad_fraction * bad.size and np.all(error <= self.hard_atol):
            return None
        worst = np.unravel_index(np.argmax(np.where(bad, error, -1.0)), error.shape)
        at = ", ".join(str(int(i)) for i in worst)
        return (
            f"{np.count_nonzero(bad)} of {bad.size} elements differ by more than rtol={self.rtol:g}, "
            f"atol={self.atol:g}; the worst is [{at}]: {got[worst]!r}, expected {expected[worst]!r}"
        )


EXACT = Tolerance()
"""Bit-for-bit equality, for integer results and sums that do not round."""
