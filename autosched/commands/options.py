"""Shared arguments and options of the commands."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from autosched.apps.app import Setting
from autosched.errors import InputError, shortened
from autosched.lang.expr import Scalar
from autosched.runtime.backends.executable import BACKENDS
from autosched.search.tune.effort_levels import EFFORT_NAMES
from autosched.search.tune.request import ONE_SHOT, STRATEGY_NAMES
from autosched.settings import whole_number

F = TypeVar("F", bound=Callable[..., Any])

LARGEST_SIZE = 2**63 - 1
"""Extents are 64-bit integers."""
MOST = 1_000_000
"""Most batches, samples and measured schedules of an option."""


class _Seconds(click.FloatRange):
    """A time budget; ``inf`` and ``nan`` are refused."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number of seconds."""
        seconds = super().convert(value, param, ctx)
        if not math.isfinite(seconds):
            self.fail(f"{shortened(value)} is no budget: give a finite number of seconds, or leave it out", param, ctx)
        return seconds


class _File(click.Path):
    """A path; the null character is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if "\0" in os.fspath(value):
            self.fail(f"{shortened(value)} has a NUL character, which no path has", param, ctx)
        return super().convert(value, param, ctx)


SECONDS = _Seconds(min=0)
PATH = _File(path_type=Path)


Pairs = tuple[tuple[str, str], ...]
"""Names with their values, as text."""


def as_pairs(context: click.Context, option: click.Parameter, texts: Iterable[str]) -> Pairs:
    """Return the values of an option of the form ``NAME=VALUE``.

    Raises:
        InputError: If a value has another form, or a name is given twice.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise InputError(f"{option.opts[0]} {shortened(text)} is not of the form {option.metavar}")
        if name in pairs:
            raise InputError(f"{option.opts[0]} {name[:80]} is given twice: give it once")
        pairs[name] = value
    return tuple(pairs.items())


_PROBLEM_OPTIONS = (
    click.argument("app"),
    click.option("--inputs", type=PATH, metavar="FILE.npz", help="Input arrays by name; their shapes are taken."),
    click.option(
        "--size",
        "sizes",
        callback=as_pairs,
        multiple=True,
        metavar="KEY=N",
        help="Problem size of generated inputs; `autosched apps` lists them.",
    ),
    click.option(
        "--param",
        "params",
        callback=as_pairs,
        multiple=True,
        metavar="NAME=VALUE",
        help="Value of a parameter; `autosched apps` lists them.",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0, 2**63 - 1),
        default=0,
        show_default=True,
        help="Seed of generated inputs and of the search.",
    ),
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
    click.option(
        "--strategy",
        type=click.Choice([ONE_SHOT, *STRATEGY_NAMES]),
        help="How to find a schedule; by default a tuned one if there is one, else the baseline, `roots`.",
    ),
    click.option("--effort", type=click.Choice(EFFORT_NAMES), help=f"Effort of `--strategy {ONE_SHOT}`."),
)

_SEARCH_OPTIONS = (
    click.option("--seconds", type=SECONDS, help="Time budget of the search."),
    click.option(
        "--cost",
        metavar="MODEL",
        help="Cost model: `learned`, `analytical` or a file of weights; by default shipped ones of measured times.",
    ),
    click.option("--simulated", is_flag=True, help="Time schedules on a simulated GPU instead of the device."),
)

polymage_weights_option = click.option(
    "--polymage-weights",
    metavar="WEIGHTS",
    help="Weights of the cost of `--strategy polymage`: `v100` (the default) or `1080ti` of the paper, `h200` fitted "
    "to simulated times, or a file of `scripts/fit_polymage_weights.py`.",
)

effort_option = click.option(
    "--effort",
    type=click.Choice(EFFORT_NAMES),
    default="default",
    show_default=True,
    help="How long the search may take: `thorough` searches wider and adds greedy searches, `fast` is greedy alone.",
)

guide_option = click.option(
    "--guide",
    type=PATH,
    metavar="FILE",
    help="File of choices that the schedule must meet, YAML or JSON: streaming, tiles, memory, fusion, occupancy.",
)

fission_option = click.option(
    "--fission-candidates",
    type=PATH,
    metavar="DIR",
    help="Where to write a schedule for each way to divide the outputs among kernels, beside the one found.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else, to stdout.")


def problem_options(command: F) -> F:
    """Add the options of a problem: app, arrays or sizes, parameters, seed."""
    return _with(_PROBLEM_OPTIONS, command)


def search_options(command: F) -> F:
    """Add the options of a search: time budget, cost model, measurement backend."""
    return _with(_SEARCH_OPTIONS, command)


def execution_options(command: F) -> F:
    """Add the options of the execution: backend and schedule."""
    return _with(_EXECUTION_OPTIONS, command)


def as_numbers(pairs: Pairs) -> dict[str, Setting | str]:
    """Return ``--param`` values as numbers; other text is kept, for the app's error message.

    Several numbers for one parameter are separated by commas.
    """
    return {name: _numbers(text) if "," in text else _number(text) for name, text in pairs}


def as_sizes(pairs: Pairs) -> dict[str, int]:
    """Return ``--size`` values as whole numbers.

    Raises:
        InputError: If a value is no whole number.
    """
    sizes = {}
    for key, text in pairs:
        size = whole_number(text, 0, LARGEST_SIZE)
        if size is None:
            raise InputError(f"--size {key[:80]}={text[:80]}: give a whole number of at most {LARGEST_SIZE}")
        sizes[key] = size
    return sizes


def _with(options: Sequence[Callable[[F], F]], command: F) -> F:
    for option in reversed(options):
        command = option(command)
    return command


def _numbers(text: str) -> tuple[float, ...] | str:
    try:
        return tuple(map(float, text.split(",")))
    except ValueError:
        return text


def _number(text: str) -> Scalar | str:
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        return text if abs(number) > LARGEST_SIZE and isinstance(number, int) else number
    return text
