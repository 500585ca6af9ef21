"""Durations as text."""

from __future__ import annotations

import math


def format_time(seconds: float) -> str:
    """Return a duration with three digits in s, ms or µs; ``unknown`` for NaN."""
    if math.isnan(seconds):
        return "unknown"
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * scale >= 1 or unit == "µs":
            return f"{seconds * scale:.3g} {unit}"
    raise AssertionError("the last unit fits every duration")
