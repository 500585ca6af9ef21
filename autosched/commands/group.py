"""A command group whose errors become one message on stderr and exit code 2."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, TextIO

import click

from autosched.commands.exit_handling import closed_pipes, exit_code_of


class CommandGroup(click.Group):
    """A group whose commands report errors and warnings as messages."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line and exit; as part of another program, return the command's result."""

        def run() -> Any:
            return super(CommandGroup, self).main(args, prog_name, complete_var, standalone_mode=False, **extra)

        if not standalone_mode:
            return run()
        raise SystemExit(exit_code_of(run))

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """Parse the command line, which may print help."""
        with closed_pipes():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command; warnings go to stderr."""
        with closed_pipes(), warnings.catch_warnings():
            warnings.showwarning = show_warning
            return super().invoke(ctx)


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning to stderr in one line, without its line of code."""
    click.echo(f"warning: {message}", err=True)
