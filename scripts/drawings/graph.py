"""Drawing of a pipeline's stage graph in layers from inputs to outputs; colours show where Funcs are computed."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.report.graph import func_graph, kinds, labels
from autosched.report.graph_layout import layered_layout
from autosched.schedule.types import Schedule

COLOURS = {"input": "#d0d0d0", "kernel": "#a8cbe8", "output": "#f2b8a0", "inlined": "#ffffff"}
CHARACTER_IN, NODE_PAD_IN, NODE_HEIGHT_IN = 0.068, 0.14, 0.2
LAYER_IN, GAP_IN, MARGIN_IN = 0.34, 0.12, 0.1
FONT_POINTS = 7.5
DPI = 110


def draw_graph(bound: BoundPipeline, schedule: Schedule, path: Path) -> None:
    """Write the picture."""
    graph = func_graph(bound)
    text = {name: name + suffix for name, suffix in labels(bound).items()}
    widths = {name: len(shown) * CHARACTER_IN + NODE_PAD_IN for name, shown in text.items()}
    layout = layered_layout(graph, widths, GAP_IN)
    height = layout.layers * LAYER_IN
    figure = Figure(figsize=(layout.width + 2 * MARGIN_IN, height + 2 * MARGIN_IN), dpi=DPI)
    axes = figure.add_axes(
        (0, 0, 1, 1), xlim=(-MARGIN_IN, layout.width + MARGIN_IN), ylim=(height + MARGIN_IN, -MARGIN_IN)
    )
    axes.axis("off")

    def y(layer: int) -> float:
        return (layer + 0.5) * LAYER_IN

    for points in layout.routes.values():
        _edge(axes, [(x, y(layer)) for x, layer in points])
    for name, kind in kinds(bound, schedule).items():
        x, layer = layout.positions[name]
        _node(axes, x, y(layer), widths[name], text[name], kind)
    save(figure, path)


def _edge(axes: matplotlib.axes.Axes, points: list[tuple[float, float]]) -> None:
    """Draw an edge from the bottom of its first node to the top of its last, vertical across layers."""
    half = NODE_HEIGHT_IN / 2
    xs, ys = [points[0][0]], [points[0][1] + half]
    for x, y in points[1:-1]:
        xs += [x, x]
        ys += [y - half, y + half]
    xs.append(points[-1][0])
    ys.append(points[-1][1] - half)
    axes.add_line(Line2D(xs, ys, color="#666666", linewidth=0.6, zorder=1))
    axes.plot(xs[-1], ys[-1], marker="v", markersize=2.5, color="#444444", zorder=2)


def _node(axes: matplotlib.axes.Axes, x: float, y: float, width: float, text: str, kind: str) -> None:
    corner = x - width / 2, y - NODE_HEIGHT_IN / 2
    box = FancyBboxPatch(
        corner, width, NODE_HEIGHT_IN, boxstyle="round,pad=0,rounding_size=0.05", facecolor=COLOURS[kind],
        edgecolor="#555555", linewidth=0.7, linestyle=(0, (2, 2)) if kind == "inlined" else "solid", zorder=3,
    )  # fmt: skip
    axes.add_patch(box)
    axes.text(x, y, text, ha="center", va="center", fontsize=FONT_POINTS, family="DejaVu Sans Mono", zorder=4)


def save(figure: Figure, path: Path) -> None:
    """Write a drawing of few colours as a small PNG; equal drawings give equal bytes."""
    import io

    import PIL.Image

    encoded = io.BytesIO()
    figure.savefig(encoded, format="png", metadata={"Software": None})
    encoded.seek(0)
    with PIL.Image.open(encoded) as picture:
        picture.convert("RGB").quantize(96, dither=PIL.Image.Dither.NONE).save(path, optimize=True)
