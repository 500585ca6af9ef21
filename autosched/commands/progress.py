"""Progress of a tuning run on a terminal."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from autosched.commands.show import format_time
from autosched.search.tune.autotune.counts_text import counts_text

if TYPE_CHECKING:
    from autosched.search.tune.autotune.report import TuneReport


@contextmanager
def tuning(*, quiet: bool = False) -> Iterator[Callable[[TuneReport], None] | None]:
    """Show the progress of a tuning run: a bar on a terminal, elsewhere a line at the start and end of each batch.

    Args:
        quiet: Show nothing.
    """
    if quiet:
        yield None
    elif sys.stderr.isatty():
        with _tuning_bar() as report:
            yield report
    else:
        yield _TuningLines().report


@contextmanager
def _tuning_bar() -> Iterator[Callable[[TuneReport], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("tuning")

        def report(r: TuneReport) -> None:
            bar.update(task, completed=r.measured, total=r.total or None, description=_line(r))

        yield report


class _TuningLines:
    """Prints a line at each change of the activity."""

    def __init__(self) -> None:
        self._last: tuple[int, str] | None = None

    def report(self, r: TuneReport) -> None:
        """Print a line if the activity changed."""
        if self._last != (r.iteration, r.activity):
            self._last = r.iteration, r.activity
            click.echo(_line(r), err=True)


def _line(r: TuneReport) -> str:
    parts = [f"batch {r.iteration}/{r.iterations} {r.activity}"]
    if math.isfinite(r.best):
        parts.append(f"best {format_time(r.best)}")
    if math.isfinite(r.rate):
        parts.append(f"{r.rate:.1f} schedules/s")
    if math.isfinite(r.error):
        parts.append(f"model off {r.error:.2f}x")
    if r.activity == "measure" and r.classes:
        parts.append(f"drawn {counts_text(r.classes)}")
    return ", ".join(parts)
