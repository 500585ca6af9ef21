"""Provenance and measured trials of a schedule, as text and as data."""

from __future__ import annotations

import math
from typing import Any

import click

from autosched.commands.show import format_time, print_table
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.tune.top_k import ROOTS


def how_text(scheduled: ScheduledPipeline) -> str:
    """Return the provenance of a schedule with its predicted and measured time."""
    origin = scheduled.provenance
    if origin is None:
        return "from a file"
    parts = [origin.strategy + (f" of {origin.samples}" if origin.samples > 1 else "")]
    parts += [f"{origin.effort} effort"] if origin.effort else []
    if origin.predicted_s is not None:
        by = f" by the {origin.model}" if origin.model else ""
        scale = f", {origin.scale}" if origin.scale else ""
        parts.append(f"predicted {format_time(origin.predicted_s)}{by}{scale}")
    if origin.measured_s is not None:
        parts.append(f"{format_time(origin.measured_s)} ({origin.source})")
    parts += [note for note in (origin.note, "taken from the cache" if origin.reused else "") if note]
    return ", ".join(parts)


def print_trials(scheduled: ScheduledPipeline) -> None:
    """Print predicted and measured times of the trials, or the command that measures them."""
    if scheduled.trials is None:
        if scheduled.provenance is not None and scheduled.provenance.measured_s is not None:
            click.echo("the times of the other candidates were not stored: --no-reuse measures them again")
        return
    verb = "simulated" if scheduled.trials.source.startswith("simulated") else "measured"
    rows = [
        (
            str(number),
            "-" if math.isnan(t.predicted) else format_time(t.predicted),
            "-" if t.problem else format_time(t.first_s),
            "" if t.again_s is None else format_time(t.again_s),
            t.problem or ("baseline" if t.origin == ROOTS else t.origin),
        )
        for number, t in enumerate(scheduled.trials.trials, 1)
    ]
    print_table(("", "predicted", verb, "again, interleaved" if any(row[3] for row in rows) else "", ""), rows)
    click.echo(f"times are {scheduled.trials.verdict}")


def trials_data(scheduled: ScheduledPipeline) -> dict[str, Any] | None:
    """Return the trials as plain data, or None."""
    if scheduled.trials is None:
        return None
    return {
        "source": scheduled.trials.source,
        "wrong_results": scheduled.trials.wrong,
        "schedules": [
            {
                "origin": t.origin,
                "predicted_seconds": t.predicted,
                "seconds": t.seconds,
                "first_seconds": t.first_s,
                "again_seconds": t.again_s,
                "kernel_seconds": list(t.kernel_seconds),
                "problem": t.problem,
            }
            for t in scheduled.trials.trials
        ],
    }
