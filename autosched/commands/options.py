"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from autosched.lang.expr import Scalar
from autosched.runtime.executable import BACKENDS

F = TypeVar("F", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)


class NameValue(click.ParamType):
    """An option value of the form ``NAME=VALUE``."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Return name and value as text."""
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not equals or not name.strip() or not text.strip():
            self.fail(f"{value!r} is not of the form NAME=VALUE", param, ctx)
        return name.strip(), text.strip()


_PROBLEM_OPTIONS = (
    click.argument("app"),
    click.option("--inputs", type=PATH, metavar="FILE.npz", help="Input arrays by name; their shapes are taken."),
    click.option(
        "--size",
        "sizes",
        type=NameValue(),
        multiple=True,
        metavar="KEY=N",
        help="Problem size of generated inputs; `autosched apps` lists them.",
    ),
    click.option(
        "--param",
        "params",
        type=NameValue(),
        multiple=True,
        metavar="NAME=VALUE",
        help="Value of a parameter; `autosched apps` lists them.",
    ),
    click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of generated inputs."),
)

_EXECUTION_OPTIONS = (
    click.option(
        "--target",
        "backend",
        type=click.Choice(BACKENDS),
        help="Where to run; by default the GPU if there is one, else the CPU through C.",
    ),
    click.option(
        "--schedule",
        "schedule_file",
        type=PATH,
        metavar="FILE.json",
        help="Schedule to use instead of finding one.",
    ),
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else, to stdout.")


def problem_options(command: F) -> F:
    """Add the options that say what to compute: app, arrays or sizes, parameters, seed."""
    return _with(_PROBLEM_OPTIONS, command)


def execution_options(command: F) -> F:
    """Add the options that say where to compute and by which schedule."""
    return _with(_EXECUTION_OPTIONS, command)


def as_numbers(pairs: Iterable[tuple[str, str]]) -> dict[str, Scalar | str]:
    """Return ``--param`` values as numbers; what is no number stays text, for the app to refuse by name.

    Raises:
        click.BadParameter: If a name is given twice.
    """
    return {name: _number(text) for name, text in _unique(pairs, "--param").items()}


def as_sizes(pairs: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return ``--size`` values as whole numbers.

    Raises:
        click.BadParameter: If a value is no whole number, or a key is given twice.
    """
    sizes = {}
    for key, text in _unique(pairs, "--size").items():
        if not text.isascii() or not text.isdecimal():
            raise click.BadParameter(f"{key}={text}: give a whole number", param_hint="--size")
        sizes[key] = int(text)
    return sizes


def _with(options: Sequence[Callable[[F], F]], command: F) -> F:
    for option in reversed(options):
        command = option(command)
    return command


def _unique(pairs: Iterable[tuple[str, str]], option: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, text in pairs:
        if name in values:
            raise click.BadParameter(f"{name} is given twice", param_hint=option)
        values[name] = text
    return values


def _number(text: str) -> Scalar | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
