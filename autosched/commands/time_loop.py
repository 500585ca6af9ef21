"""Time loops of an app on the command line: `--times` of `autosched schedule`, `tune` and `export`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from autosched.commands.options import Pairs, as_pairs
from autosched.commands.problem import CommandProblem, configure
from autosched.commands.show import format_time, print_json, print_table
from autosched.errors import InputError
from autosched.iteration.field_update import MOST_TIMES
from autosched.iteration.scheduled_time_loop import ScheduledTimeLoop
from autosched.iteration.step_composition import sequence_text
from autosched.iteration.time_loop import TimeLoop
from autosched.plural import counted

F = TypeVar("F", bound=Callable[..., Any])

SWEEPS = "T"
"""Structural parameter with the number of sweeps of an app, which is 1 in a step unless it is given."""


def loop_options(command: F) -> F:
    """Add the options of a time loop."""
    command = click.option(
        "--field",
        "fields",
        callback=as_pairs,
        multiple=True,
        metavar="INPUT=OUTPUT",
        help="A field of --times and the output with its next value; by default the outputs are those of the first "
        "inputs.",
    )(command)
    return click.option(
        "--times",
        type=click.IntRange(0, MOST_TIMES),
        help="Repeat the app this many times, each on the last one's outputs: schedules of 1, 2, 3, ... fused steps.",
    )(command)


def configure_loop(
    app: str, inputs: Path | None, sizes: Pairs, params: Pairs, times: int, fields: Pairs
) -> tuple[CommandProblem, TimeLoop]:
    """Return the configured app and its time loop.

    Raises:
        InputError: As `configure`, and if the app computes no fields from themselves.
    """
    from_app, _ = configure(app, inputs, sizes, params)
    if SWEEPS in from_app.app.structure and all(name != SWEEPS for name, _ in params):
        from_app, _ = configure(app, inputs, sizes, (*params, (SWEEPS, "1")))
    return from_app, TimeLoop(from_app.pipeline, times, fields=dict(fields) or None)


def check_mode(times: int | None, fields: Pairs) -> None:
    """Refuse fields without a time loop.

    Raises:
        InputError: If there are some.
    """
    if times is None and fields:
        raise InputError("--field is of a time loop: add --times, the number of steps, or leave it out")


def print_loop(
    app: str, scheduled: ScheduledTimeLoop, took: float, files: tuple[Path | None, ...], as_json: bool
) -> None:
    """Print schedules, times and composition of a time loop.

    Args:
        app: The app.
        scheduled: Its schedules.
        took: Seconds of the search.
        files: Written files.
        as_json: Whether to print JSON.
    """
    times = scheduled.update.times
    if as_json:
        print_json(loop_data(app, scheduled, took))
        return
    click.echo(scheduled.text())
    rows = [
        (v.steps, format_time(v.seconds), format_time(v.seconds / v.steps), v.bound_by, v.source)
        for v in scheduled.versions
    ]
    print_table(("fused steps", "time", "time a step", "bound by", "source"), rows)
    if scheduled.stop:
        click.echo(f"no more steps are fused: {scheduled.stop}")
    time = format_time(scheduled.predicted_seconds())
    click.echo(f"{counted(times, 'step')}: {sequence_text(scheduled.composed())}, {time}")
    click.echo(f"took {format_time(took)}")
    for file in files:
        if file is not None:
            click.echo(f"wrote {file}")


def loop_data(app: str, scheduled: ScheduledTimeLoop, took: float) -> dict[str, Any]:
    """Return a time loop as plain data; arguments are those of `print_loop`."""
    return {
        "app": app,
        "target": scheduled.target.name,
        "seconds": took,
        "times": scheduled.update.times,
        "fields": dict(scheduled.update.fields),
        "composition": list(scheduled.composed()),
        "predicted_seconds": scheduled.predicted_seconds(),
        "stop": scheduled.stop,
        "versions": [
            {
                "steps": v.steps,
                "seconds": v.seconds,
                "source": v.source,
                "bound_by": v.bound_by,
                "loop_nest": v.scheduled.text(),
                "origin": None if v.scheduled.provenance is None else v.scheduled.provenance.to_data(),
            }
            for v in scheduled.versions
        ],
    }
