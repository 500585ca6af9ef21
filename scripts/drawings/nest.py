"""Drawing of a schedule: each kernel's loops as nested boxes, coloured by kind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.io.loop_tree import LoopTreeNode, NodeKind, loop_tree
from autosched.schedule.kernel.memory_layout import shared_layout
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import Schedule
from drawings.graph import save

COLOURS = {
    NodeKind.BLOCK: "#b9d4ee",
    NodeKind.WARP: "#cfe0f4",
    NodeKind.THREAD: "#bfe3c0",
    NodeKind.SERIAL: "#fbe0a8",
    NodeKind.REDUCTION: "#f3bcae",
    NodeKind.STAGE: "#ffffff",
    NodeKind.BARRIER: "#555555",
}
WIDTH_IN = 2.9
"""Width of a kernel in characters; longer lines are truncated."""
CHARACTER_IN, LINE_IN, PAD_IN, GAP_IN = 0.0505, 0.135, 0.045, 0.16
FONT_POINTS = 6.5
DPI = 100
SHOWN_DEFINITIONS = 4
"""Most definitions that are drawn of a long sequence."""


@dataclass(frozen=True)
class Box:
    """A node with its place: ``top`` and ``height`` in inches from the top of its kernel, ``depth`` boxes around it."""

    kind: NodeKind
    text: str
    top: float
    height: float
    depth: int


def merged(node: LoopTreeNode) -> LoopTreeNode:
    """Return a node with directly nested loops of one kind merged into one."""
    text, children = node.text, node.children
    while len(children) == 1 and children[0].kind is node.kind and node.kind is not NodeKind.STAGE:
        text, children = f"{text}, {children[0].text.removeprefix(node.kind.value).strip()}", children[0].children
    return LoopTreeNode(node.kind, text, tuple(merged(c) for c in shortened(children)))


def shortened(nodes: Sequence[LoopTreeNode]) -> Sequence[LoopTreeNode]:
    """Return nodes without the middle of a long sequence of definitions."""
    if len(nodes) <= SHOWN_DEFINITIONS + 1 or any(n.kind is not NodeKind.DEFINITION for n in nodes):
        return nodes
    left_out = LoopTreeNode(NodeKind.DEFINITION, f"... {len(nodes) - SHOWN_DEFINITIONS} more ...")
    return (*nodes[: SHOWN_DEFINITIONS - 1], left_out, nodes[-1])


def boxes(nodes: Sequence[LoopTreeNode], top: float, depth: int) -> tuple[list[Box], float]:
    """Return the boxes of nodes stacked vertically, outer before inner, and the bottom of the last one."""
    placed: list[Box] = []
    for node in nodes:
        inner, bottom = boxes(node.children, top + LINE_IN + PAD_IN, depth + 1)
        if not node.children:
            bottom = top + (LINE_IN / 2 if node.kind is NodeKind.BARRIER else LINE_IN)
        elif node.kind is not NodeKind.DEFINITION:
            bottom += PAD_IN
        placed += [Box(node.kind, node.text, top, bottom - top, depth), *inner]
        top = bottom + PAD_IN
    return placed, top - PAD_IN if nodes else top


@dataclass(frozen=True)
class Panel:
    """A kernel's drawing."""

    title: str
    boxes: Sequence[Box]
    height: float


def panels(bound: BoundPipeline, schedule: Schedule) -> list[Panel]:
    """Return the kernels of a schedule in launch order."""
    drawn_panels = []
    for k, kernel in enumerate(schedule.kernels):
        plan = plan_kernel(bound, kernel)
        nodes = [merged(n) for n in loop_tree(plan, shared_layout(plan))]
        drawn, height = boxes(nodes, LINE_IN, 0)
        inlined = ", ".join(i.func for i in kernel.inlined)
        title = f"{k}: {', '.join(kernel.root_funcs)}" + (f"  (inlined: {inlined})" if inlined else "")
        drawn_panels.append(Panel(title, drawn, height + GAP_IN))
    return drawn_panels


def in_columns(drawn: Sequence[Panel]) -> list[list[Panel]]:
    """Return panels in order, in columns of about equal height that give an approximately square picture."""
    total = sum(p.height for p in drawn)
    count = max(1, min(round((total / WIDTH_IN) ** 0.5), len(drawn)))
    columns: list[list[Panel]] = [[] for _ in range(count)]
    above = 0.0
    for panel in drawn:
        columns[min(int((above + panel.height / 2) / total * count), count - 1)].append(panel)
        above += panel.height
    return columns


def draw_nest(bound: BoundPipeline, schedule: Schedule, path: Path) -> None:
    """Write the picture."""
    columns = in_columns(panels(bound, schedule))
    width = len(columns) * (WIDTH_IN + GAP_IN) + GAP_IN
    height = max(sum(p.height for p in column) for column in columns) + GAP_IN
    figure = Figure(figsize=(width, height), dpi=DPI)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    for k, column in enumerate(columns):
        left, top = GAP_IN + k * (WIDTH_IN + GAP_IN), GAP_IN / 2
        for panel in column:
            _panel(axes, panel, left, top)
            top += panel.height
    save(figure, path)


def _panel(axes: matplotlib.axes.Axes, panel: Panel, left: float, top: float) -> None:
    _text(axes, left, top + LINE_IN / 2, panel.title, int(WIDTH_IN / CHARACTER_IN), weight="bold")
    for box in panel.boxes:
        inset = box.depth * PAD_IN
        x, y, width = left + inset, top + box.top, WIDTH_IN - 2 * inset
        if box.kind is NodeKind.BARRIER:
            axes.plot((x, x + width), (y + box.height / 2,) * 2, color=COLOURS[box.kind], linewidth=1.5)
            continue
        if box.kind is not NodeKind.DEFINITION:
            axes.add_patch(
                Rectangle((x, y), width, box.height, facecolor=COLOURS[box.kind], edgecolor="#666666", linewidth=0.5)
            )
        _text(axes, x + PAD_IN, y + LINE_IN / 2, box.text, int((width - 2 * PAD_IN) / CHARACTER_IN))


def _text(axes: matplotlib.axes.Axes, x: float, y: float, text: str, room: int, weight: str = "normal") -> None:
    # Dollar signs would start a formula; double spaces only separate bracketed text.
    shown = re.sub(r" +", " ", text).replace("$", r"\$")
    if len(shown) > room:
        shown = shown[: room - 1] + "\N{HORIZONTAL ELLIPSIS}"
    axes.text(x, y, shown, va="center_baseline", fontsize=FONT_POINTS, family="DejaVu Sans Mono", weight=weight)
