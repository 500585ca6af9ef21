"""Markdown tables and number formats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

NONE = "-"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table, with escaped cells."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(cell(c) for c in row) + " |" for row in rows]


def cell(text: str) -> str:
    """Return a text escaped for a cell."""
    return text.replace("|", "\\|").replace("\n", " ") or NONE


def microseconds(seconds: float | None) -> str:
    """Return a time in microseconds with three significant digits."""
    if seconds is None or not math.isfinite(seconds):
        return NONE
    value = seconds * 1e6
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def ratio(a: float | None, b: float | None) -> str:
    """Return the ratio of two times."""
    return f"{a / b:.2f}" if a is not None and b else NONE


def geometric_mean(values: Sequence[float]) -> float | None:
    """Return the geometric mean, or None without values."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None
