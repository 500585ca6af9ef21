"""Output of commands: JSON for programs, tables and plain lines for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from autosched.runtime.timing.durations import format_time as format_time  # re-exported for the commands

PIPED_WIDTH = 120
"""Width of a table that is not printed to a terminal."""


def print_json(value: Any) -> None:
    """Print a value as JSON to stdout; NaN and infinities become null."""
    click.echo(json.dumps(_finite(value), indent=2))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under column titles, aligned."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in columns:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    console = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)
    with console.capture() as printed:  # through click, which handles a closed pipe
        console.print(table)
    click.echo(printed.get(), nl=False)


def shape_text(dtype: object, shape: Iterable[object]) -> str:
    """Return an array's type and shape: ``float32[3, 640, 480]``."""
    return f"{dtype}[{', '.join(map(str, shape))}]"


def _finite(value: Any) -> Any:
    """Return a value with NaN and infinities replaced by None."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
