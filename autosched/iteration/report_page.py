"""The HTML report of a time loop: times of its versions, their composition, and the report of each used version."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path

from autosched.commands.files import replacing
from autosched.iteration.protocol import ScheduledSteps
from autosched.iteration.step_composition import sequence_text
from autosched.report.page import report_html
from autosched.runtime.timing.durations import format_time

_NUMBERS_OF_STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 48, 100)
"""Numbers of steps whose compositions are listed, besides the declared one."""
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; }
table { border-collapse: collapse; margin: 1em 0; }
td, th { border-bottom: 1px solid #ccc; padding: 0.2em 1em; text-align: left; }
iframe { border: 1px solid #ccc; height: 60em; width: 100%; }
"""


def time_loop_report_html(scheduled: ScheduledSteps) -> str:
    """Return a self-contained page on a time loop.

    Args:
        scheduled: The time loop.

    Raises:
        InputError: If Jinja is not installed.
    """
    update = scheduled.update
    title = escape(f"{update.name} for {scheduled.target.name}")
    times = sorted({*_NUMBERS_OF_STEPS, update.times} - {0})
    composed = [
        (str(t), sequence_text(scheduled.composed(t)), format_time(scheduled.predicted_seconds(t))) for t in times
    ]
    versions = [
        (
            str(v.steps),
            format_time(v.seconds),
            format_time(v.seconds / v.steps),
            v.source,
            v.bound_by,
            len(v.scheduled.schedule.kernels),
        )
        for v in scheduled.versions
    ]
    pages = [
        f"<details><summary>{escape(v.title)}</summary>"
        f'<iframe srcdoc="{escape(report_html(v.scheduled, measured=v.scheduled.measured))}"></iframe></details>'
        for v in scheduled.used
    ]
    fields = [f"{escape(field)} &larr; {escape(source)}" for field, source in update.fields.items()]
    return "\n".join(
        [
            f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
            f"<style>{_STYLE}</style></head><body><h1>{title}</h1>",
            f"<p>A step: {', '.join(fields)}.</p>",
            "<h2>Fused steps</h2>",
            _table(("steps", "time", "time a step", "source", "bound by", "kernels"), versions),
            f"<p>No more steps are fused: {escape(scheduled.stop)}.</p>" if scheduled.stop else "",
            "<h2>Composition</h2>",
            _table(("steps", "runs", "time"), composed),
            "<h2>Versions</h2>",
            *pages,
            "</body></html>",
            "",
        ]
    )


def write_time_loop_report(path: str | os.PathLike[str], scheduled: ScheduledSteps) -> None:
    """Write `time_loop_report_html` to a file, which is replaced whole or not at all.

    Args:
        path: The file.
        scheduled: The time loop.

    Raises:
        InputError: If the file cannot be written, or Jinja is not installed.
    """
    with replacing(Path(path)) as file:
        file.write(time_loop_report_html(scheduled).encode())


def _table(head: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> str:
    cells = "".join(f"<th>{escape(text)}</th>" for text in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f"<table><tr>{cells}</tr>\n{body}</table>"
