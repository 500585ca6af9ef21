"""The roofline plot: operations per second over operations per byte of every kernel, with the device's limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autosched.report.numbers import shown_count
from autosched.report.svg import Element, drawing, element
from autosched.target import Target

WIDTH_PX, HEIGHT_PX = 560.0, 320.0
LEFT_PX, RIGHT_PX, TOP_PX, BOTTOM_PX = 78.0, 16.0, 22.0, 44.0
RADIUS_PX, FONT_PX = 8.0, 12


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """A kernel in the plot.

    Attributes:
        number: Its number.
        name: Funcs that it computes.
        colour: Its colour.
        intensity: Operations per byte.
        rate: Operations per second.
    """

    number: int
    name: str
    colour: str
    intensity: float
    rate: float

    @property
    def is_drawn(self) -> bool:
        """Whether both coordinates are positive and finite."""
        return all(math.isfinite(v) and v > 0 for v in (self.intensity, self.rate))


def roofline_svg(points: Sequence[RooflinePoint], target: Target) -> Element:
    """Return the plot; at least one point must be drawn."""
    shown = [p for p in points if p.is_drawn]
    axes = _Axes(shown, target)
    roofs = [axes.roof(target.peak_fp32_flops, "float32", -5), axes.roof(target.peak_fp64_flops, "float64", 14)]
    marks = [axes.mark(p) for p in shown]
    return drawing(
        WIDTH_PX, HEIGHT_PX, f"Roofline plot of {len(shown)} kernels on {target.name}", *axes.grid(),
        *(e for roof in roofs for e in roof), *marks, class_="roofline", font_size=FONT_PX,
    )  # fmt: skip


class _Axes:
    """Logarithmic axes that hold all points and the corner of the highest roof."""

    def __init__(self, points: Sequence[RooflinePoint], target: Target) -> None:
        self.bandwidth = target.dram_bytes_per_s
        corner = target.peak_fp32_flops / self.bandwidth
        xs = [corner, *(p.intensity for p in points)]
        ys = [target.peak_fp32_flops, *(p.rate for p in points)]
        self.x0, self.x1 = math.floor(math.log10(min(xs) / 2)), math.ceil(math.log10(max(xs) * 2))
        self.y0, self.y1 = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys) * 1.2))

    def x(self, intensity: float) -> float:
        share = (math.log10(intensity) - self.x0) / (self.x1 - self.x0)
        return LEFT_PX + share * (WIDTH_PX - LEFT_PX - RIGHT_PX)

    def y(self, rate: float) -> float:
        share = (math.log10(rate) - self.y0) / (self.y1 - self.y0)
        return HEIGHT_PX - BOTTOM_PX - share * (HEIGHT_PX - TOP_PX - BOTTOM_PX)

    def grid(self) -> list[Element]:
        """Return grid lines at the powers of ten with their values, and the axis labels."""
        bottom, right = HEIGHT_PX - BOTTOM_PX, WIDTH_PX - RIGHT_PX
        elements = []
        for power in range(self.x0, self.x1 + 1):
            x = self.x(10.0**power)
            elements.append(_line(x, TOP_PX, x, bottom, "#dddddd"))
            elements.append(element("text", text=f"{10.0**power:g}", x=x, y=bottom + 16, text_anchor="middle"))
        for power in range(self.y0, self.y1 + 1):
            y = self.y(10.0**power)
            elements.append(_line(LEFT_PX, y, right, y, "#dddddd"))
            text = shown_count(10.0**power, "flop/s")
            elements.append(element("text", text=text, x=LEFT_PX - 6, y=y + 4, text_anchor="end"))
        middle = (LEFT_PX + right) / 2
        below = "floating-point operations a byte that must move"
        return [*elements, element("text", text=below, x=middle, y=HEIGHT_PX - 8, text_anchor="middle")]

    def roof(self, peak: float, name: str, below: float) -> list[Element]:
        """Return the bandwidth line up to a peak rate, and the labelled line of the rate."""
        first = max(10.0**self.x0, 10.0**self.y0 / self.bandwidth)
        corner = max(peak / self.bandwidth, first)
        right = self.x(10.0**self.x1)
        at = self.y(peak)
        return [
            _line(self.x(first), self.y(first * self.bandwidth), self.x(corner), at, "#555555"),
            _line(self.x(corner), at, right, at, "#555555"),
            element("text", text=f"{name} peak", x=right - 4, y=at + below, text_anchor="end", fill="#333333"),
        ]

    def mark(self, p: RooflinePoint) -> Element:
        """Return a kernel's disc with its number, as a link."""
        x, y = self.x(p.intensity), self.y(p.rate)
        title = f"kernel {p.number}: {p.name}, {p.intensity:.3g} flop/byte, {shown_count(p.rate, 'flop/s')}"
        return element(
            "a",
            element("title", text=title),
            element("circle", cx=x, cy=y, r=RADIUS_PX, fill=p.colour, stroke="#444444"),
            element("text", text=str(p.number), x=x, y=y + 3.5, text_anchor="middle", font_size=9),
            href=f"#kernel-{p.number}",
            data_kernel=p.number,
        )


def _line(x0: float, y0: float, x1: float, y1: float, colour: str) -> Element:
    return element("line", x1=x0, y1=y0, x2=x1, y2=y1, stroke=colour)
