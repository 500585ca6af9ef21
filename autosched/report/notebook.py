"""A scheduled pipeline in a notebook: a few lines, the stage graph, the loop nest. Nothing is compiled."""

from __future__ import annotations

from html import escape

from autosched.commands.show import shape_text
from autosched.report.graph_svg import graph_svg
from autosched.report.search_summary import how_found
from autosched.report.svg import markup
from autosched.scheduled_protocol import Scheduled

BOX = "background: #fff; color: #1b1b1b; padding: 0.5em; max-width: 100%"
SCROLLED = "overflow: auto; max-height: 40em"


def notebook_html(scheduled: Scheduled) -> str:
    """Return a fragment of HTML for notebooks; needs no template engine."""
    signature = scheduled.signature
    arrays = [
        f"{what} <code>{escape(a.name)}: {escape(shape_text(a.dtype, a.shape))}</code>"
        for what, specs in (("input", signature.inputs), ("output", signature.outputs))
        for a in specs
    ]
    count = len(scheduled.schedule.kernels)
    lines = [
        f"<b>{escape(signature.pipeline)}</b> for {escape(scheduled.target.name)}: "
        f"{count} kernel{'s' * (count != 1)}; {escape(how_found(scheduled))}",
        "<br>".join(arrays),
    ]
    graph = markup(graph_svg(scheduled.bound, scheduled.schedule, links=False))
    return (
        f'<div style="{BOX}">' + "".join(f"<p>{line}</p>" for line in lines)
        + _folded("Stage graph", graph, opened=True)
        + _folded("Loop nest", f"<pre>{escape(scheduled.text())}</pre>")
        + "</div>"
    )  # fmt: skip


def _folded(title: str, content: str, *, opened: bool = False) -> str:
    summary = f"<summary>{escape(title)}</summary>"
    return f'<details{" open" * opened}>{summary}<div style="{SCROLLED}">{content}</div></details>'
