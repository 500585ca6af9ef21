"""Bar chart of a kernel's times and of the lower bounds from its bytes and operations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autosched.report.numbers import shown_time
from autosched.report.svg import Element, drawing, element

LABEL_PX, BAR_PX, VALUE_PX = 112.0, 200.0, 66.0
ROW_PX, THICK_PX, FONT_PX = 20.0, 12.0, 12
LIMIT, PREDICTED, MEASURED = "#c9c9c9", "#5b8fc7", "#1d3f66"


@dataclass(frozen=True, slots=True)
class Bar:
    """A time with its label and colour; NaN if unknown."""

    label: str
    seconds: float
    colour: str


def bars_svg(bars: Sequence[Bar], label: str) -> Element:
    """Return bars below one another on one scale; ``label`` is the text for screen readers."""
    longest = max((b.seconds for b in bars if math.isfinite(b.seconds)), default=0.0)
    rows = [row for k, bar in enumerate(bars) for row in _row(bar, k * ROW_PX, longest)]
    width = LABEL_PX + BAR_PX + VALUE_PX
    return drawing(width, len(bars) * ROW_PX, label, *rows, class_="bars", font_size=FONT_PX)


def _row(bar: Bar, top: float, longest: float) -> list[Element]:
    is_timed = math.isfinite(bar.seconds) and longest > 0
    length = max(bar.seconds / longest * BAR_PX, 1.0) if is_timed else 0.0
    baseline = top + ROW_PX - 6
    return [
        element("text", text=bar.label, x=LABEL_PX - 8, y=baseline, text_anchor="end"),
        element("rect", x=LABEL_PX, y=top + (ROW_PX - THICK_PX) / 2, width=length, height=THICK_PX, fill=bar.colour),
        element("text", text=shown_time(bar.seconds), x=LABEL_PX + length + 6, y=baseline),
    ]
