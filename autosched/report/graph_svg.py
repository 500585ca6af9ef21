"""The stage graph as SVG: a box for each Func in the colour of the kernel that computes it, a link to that kernel."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.report.colours import kernel_colour
from autosched.report.graph import NodeBox, NodeKind, func_graph, kinds, labels, places
from autosched.report.graph_layout import layered_layout
from autosched.report.svg import Element, drawing, element
from autosched.schedule.types import Level, Schedule

CHARACTER_PX, FONT_PX = 6.6, 11
NODE_PAD_PX, NODE_HEIGHT_PX = 14.0, 22.0
LAYER_PX, GAP_PX, MARGIN_PX = 44.0, 14.0, 8.0
FONTS = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
BADGE_CHARACTER_PX, BADGE_GAP_PX = 5.4, 5.0
LONGEST_NAME = 26
"""Most characters of a displayed name; the tooltip has the whole name."""
INPUT_FILL, INLINED_FILL = "#e4e4e4", "#ffffff"
WHERE = {
    Level.ROOT: "to global memory",
    Level.BLOCK: "in shared memory",
    Level.WARP: "in shared memory of a warp",
    Level.THREAD: "in registers",
    Level.INLINE: "inlined",
}


def graph_svg(bound: BoundPipeline, schedule: Schedule, *, links: bool = True) -> Element:
    """Return the graph of inputs and Funcs of a scheduled pipeline.

    Args:
        bound: The pipeline.
        schedule: Its schedule.
        links: Whether the boxes of Funcs are links to ``#kernel-<number>``; they carry the number as ``data-kernel``.
    """
    graph = func_graph(bound)
    suffixes, kind_of, place_of = labels(bound), kinds(bound, schedule), places(schedule)
    nodes = {n: _Node(n, suffixes[n], kind_of[n], place_of.get(n)) for n in graph}
    layout = layered_layout(graph, {n: node.width for n, node in nodes.items()}, GAP_PX)

    def y(layer: int) -> float:
        return MARGIN_PX + layer * LAYER_PX + NODE_HEIGHT_PX / 2

    edges = [_edge([(MARGIN_PX + x, y(layer)) for x, layer in points]) for points in layout.routes.values()]
    boxes = [
        nodes[n].drawn(MARGIN_PX + x, y(layer), bound, links)
        for n, (x, layer) in sorted(layout.positions.items(), key=lambda item: item[1][::-1])
    ]
    height = (layout.layers - 1) * LAYER_PX + NODE_HEIGHT_PX + 2 * MARGIN_PX
    name = f"Stage graph of {bound.pipeline.name}: {len(bound.inputs)} inputs, {len(bound.funcs)} Funcs"
    return drawing(
        layout.width + 2 * MARGIN_PX, height, name, element("g", *edges, fill="none", stroke="#777777"), *boxes,
        class_="graph", font_family=FONTS, font_size=FONT_PX,
    )  # fmt: skip


class _Node:
    """A box of the drawing."""

    def __init__(self, name: str, suffix: str, kind: NodeKind, place: NodeBox | None) -> None:
        self.name = name
        self.kind = kind
        self.place = place
        self.text = _shortened(name) + suffix
        computed = place is not None and place.level is not Level.INLINE
        self.badge = ",".join(map(str, place.kernels)) if place is not None and computed else ""
        badge = len(self.badge) * BADGE_CHARACTER_PX + BADGE_GAP_PX if self.badge else 0.0
        self.width = len(self.text) * CHARACTER_PX + badge + NODE_PAD_PX

    def drawn(self, x: float, y: float, bound: BoundPipeline, links: bool) -> Element:
        """Return the box around a centre."""
        left = x - self.width / 2 + NODE_PAD_PX / 2
        parts = [element("title", text=self._title(bound)), self._box(x, y)]
        if self.badge:
            parts.append(element("text", text=self.badge, class_="badge", x=left, y=y + 3.5, font_size=9))
            left += len(self.badge) * BADGE_CHARACTER_PX + BADGE_GAP_PX
        length = len(self.text) * CHARACTER_PX
        parts.append(
            element("text", text=self.text, x=left, y=y + 4.0, textLength=length, lengthAdjust="spacingAndGlyphs")
        )
        numbers = () if self.place is None else self.place.kernels
        if not (links and numbers):
            return element("g", *parts, class_=f"node {self.kind}")
        carried = " ".join(map(str, numbers))
        return element("a", *parts, class_=f"node {self.kind}", href=f"#kernel-{numbers[0]}", data_kernel=carried)

    def _box(self, x: float, y: float) -> Element:
        dashes = {"stroke_dasharray": "3 2"} if self.kind == "inlined" else {}
        return element(
            "rect", x=x - self.width / 2, y=y - NODE_HEIGHT_PX / 2, width=self.width, height=NODE_HEIGHT_PX,
            rx=NODE_HEIGHT_PX / 2 if self.kind == "input" else 4.0, fill=self._fill(),
            stroke="#111111" if self.kind == "output" else "#666666", stroke_width=2.5 if self.kind == "output" else 1,
            **dashes,
        )  # fmt: skip

    def _fill(self) -> str:
        if self.kind == "input":
            return INPUT_FILL
        return kernel_colour(self.place.kernels[0]) if self.place is not None and self.badge else INLINED_FILL

    def _title(self, bound: BoundPipeline) -> str:
        if self.kind == "input" or self.place is None:
            source = bound.inputs.get(self.name)
            return self.name if source is None else f"{self.name}: input {source.dtype}{list(source.shape)}"
        extents = " x ".join(map(str, bound.funcs[self.name].extents)) or "one point"
        where = ", ".join(f"kernel {k}" for k in self.place.kernels)
        how = WHERE.get(self.place.level, self.place.level.name)
        between = "into" if self.place.level is Level.INLINE else "by"
        output = "output " if self.kind == "output" else ""
        return f"{output}{self.name}: {extents}, {how} {between} {where}"


def _edge(points: Sequence[tuple[float, float]]) -> Element:
    """Return an edge from the bottom of its first box to the top of its last, upright where it passes a layer."""
    half = NODE_HEIGHT_PX / 2
    stops = [(points[0][0], points[0][1] + half)]
    for x, y in points[1:-1]:
        stops += [(x, y - half), (x, y + half)]
    stops.append((points[-1][0], points[-1][1] - half))
    path = [f"M{stops[0][0]:.1f} {stops[0][1]:.1f}"]
    for k, ((x0, y0), (x1, y1)) in enumerate(itertools.pairwise(stops)):
        middle = (y0 + y1) / 2
        curved = f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
        path.append(curved if k % 2 == 0 else f"L{x1:.1f} {y1:.1f}")
    x, y = stops[-1]
    tip = f"M{x - 3:.1f} {y - 5:.1f}L{x:.1f} {y:.1f}L{x + 3:.1f} {y - 5:.1f}"
    return element("path", d="".join(path) + tip)


def _shortened(name: str) -> str:
    if len(name) <= LONGEST_NAME:
        return name
    half = LONGEST_NAME // 2
    return f"{name[:half]}\N{HORIZONTAL ELLIPSIS}{name[-half + 1 :]}"
