"""How a command fails: one clear message on stderr, exit code 2, nothing on stdout."""

from __future__ import annotations

import warnings
from typing import Any, TextIO

import click

from autosched.errors import AutoschedError


class Failure(click.ClickException):
    """An error that is told to the user without a traceback."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Print the message to stderr."""
        click.echo(f"error: {self.format_message()}", err=True)


class CommandGroup(click.Group):
    """A group whose commands report errors and warnings of the library as messages."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command.

        Raises:
            Failure: For every error that the library raises on purpose, and where memory runs out.
        """
        with warnings.catch_warnings():
            warnings.showwarning = show_warning
            try:
                return super().invoke(ctx)
            except AutoschedError as error:
                raise Failure(str(error)) from error
            except MemoryError as error:
                raise Failure(f"not enough memory ({error}): choose smaller sizes with --size") from error


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning to stderr in one line, without the line of code that gave it."""
    click.echo(f"warning: {message}", err=True)
