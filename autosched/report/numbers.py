"""Formats of numbers in reports."""

from __future__ import annotations

import math

from autosched.commands.show import format_time

UNKNOWN = "\N{EN DASH}"


def shown_time(seconds: float | None) -> str:
    """Return a duration with a unit, or a dash if it is unknown."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    return f"{seconds * 1e9:.3g} ns" if 0 < seconds < 1e-6 else format_time(seconds)


def shown_bytes(count: float | None) -> str:
    """Return a number of bytes in decimal units."""
    return _scaled(count, "B")


def shown_count(count: float | None, unit: str = "") -> str:
    """Return a number with a decimal prefix: ``1.25 M``."""
    return _scaled(count, unit)


def shown_ratio(ratio: float | None) -> str:
    """Return a ratio in percent."""
    return UNKNOWN if ratio is None or not math.isfinite(ratio) else f"{100 * ratio:.3g} %"


def shown_dims(extents: tuple[int, ...]) -> str:
    """Return extents without trailing ones: ``48 x 320``."""
    last = max((k for k, n in enumerate(extents) if n != 1), default=0)
    return " \N{MULTIPLICATION SIGN} ".join(map(str, extents[: last + 1]))


def _scaled(count: float | None, unit: str) -> str:
    if count is None or not math.isfinite(count):
        return UNKNOWN
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(count) >= scale:
            return f"{count / scale:.3g} {prefix}{unit}"
    return f"{count:.3g} {unit}".rstrip()
