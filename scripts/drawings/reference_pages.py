"""Write the generated parts of pages in docs/reference: features, commands, settings, environment variables.

    python scripts/reference_pages.py

A generated part is enclosed in the lines `<!-- generated: WHAT -->` and `<!-- end -->`. WHAT is `features`, `commands`,
`environment`, or the full name of a class of settings.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from autosched.cli import main as cli
from autosched.featurize.schema import FEATURES
from autosched.settings import ENVIRONMENT_VARIABLES

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGES = ("cli.md", "features.md", "settings-and-environment.md")
WIDTH = 120
LAST_OF_PAPER = "max_block_occupancy"
"""Last feature of Anderson, Appendix A."""

_PART = re.compile(r"(<!-- generated: (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_ATTRIBUTE = re.compile(r"^        (\w+): (.*(?:\n            .*)*)", re.MULTILINE)


def main() -> None:
    for name in PAGES:
        page = REFERENCE / name
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


def filled(page: str) -> str:
    """Return a page with regenerated parts."""
    return _PART.sub(lambda m: f"{m.group(1)}\n{part(m.group(2))}\n\n{m.group(4)}", page)


def part(what: str) -> str:
    """Return one generated part."""
    match what:
        case "features":
            return features()
        case "commands":
            return commands()
        case "environment":
            return table(["variable", "meaning"], ([f"`{n}`", meaning] for n, meaning in ENVIRONMENT_VARIABLES.items()))
    module, _, name = what.rpartition(".")
    return settings(getattr(importlib.import_module(module), name))


def features() -> str:
    """Return the table of schedule features."""
    last = [f.name for f in FEATURES].index(LAST_OF_PAPER)
    rows = ([f"`{f.name}`", f.unit, f.meaning, "Anderson" if k <= last else "ours"] for k, f in enumerate(FEATURES))
    return table(["name", "unit", "meaning", "source"], rows)


def commands() -> str:
    """Return a section for each command."""
    return "\n\n".join(section(name, command) for name, command in sorted(cli.commands.items()))


def section(name: str, command: click.Command) -> str:
    """Return usage, description and options of a command."""
    arguments = [argument_text(p) for p in command.params if isinstance(p, click.Argument)]
    usage = " ".join(["autosched", name, *arguments, "[OPTIONS]"])
    paragraphs = re.split(r"\n\s*\n", (command.help or "").strip())
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    lines = [f"## {name}", "", f"```text\n{usage}\n```", ""]
    lines += [line for text in paragraphs for line in (textwrap.fill(" ".join(text.split()), WIDTH), "")]
    return "\n".join([*lines, table(["option", "default", "meaning"], map(option_row, options))])


def argument_text(argument: click.Argument) -> str:
    """Return an argument in the form of usage lines."""
    name = (argument.name or "").upper()
    return f"[{name}]..." if argument.nargs == -1 else name


def option_row(option: click.Option) -> list[str]:
    """Return spelling, default and meaning of an option."""
    takes = f" {option.metavar or choices(option.type)}" if not option.is_flag and not option.count else ""
    names = ", ".join(f"`{name}{takes}`" for name in option.opts)
    shown = option.default if isinstance(option.default, str | int | float) and not option.is_flag else None
    default = "required" if option.required else "" if shown is None else f"`{shown}`"
    return [names, default, " ".join((option.help or "").split())]


def choices(kind: click.ParamType) -> str:
    """Return the values of an option."""
    return "\\|".join(map(str, kind.choices)) if isinstance(kind, click.Choice) else kind.name.partition(" ")[0].upper()


def settings(cls: type[Any]) -> str:
    """Return the fields of a dataclass with their defaults, and the meanings in its docstring."""
    meanings = {m.group(1): " ".join(m.group(2).split()) for m in _ATTRIBUTE.finditer(cls.__doc__ or "")}
    rows = ([f"`{f.name}`", default_text(f), meanings[f.name]] for f in dataclasses.fields(cls))
    return table(["field", "default", "meaning"], rows)


def default_text(field: dataclasses.Field[Any]) -> str:
    """Return a field's default; values of factories are omitted if they are objects or long."""
    if field.default is not dataclasses.MISSING:
        return f"`{field.default!r}`" if not isinstance(field.default, tuple) else f"`{list_text(field.default)}`"
    return ""


def list_text(values: tuple[object, ...]) -> str:
    """Return a tuple in the form of configuration files."""
    return f"[{', '.join(map(str, values))}]"


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """Return a Markdown table; double backquotes of docstrings become single ones."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines).replace("``", "`")
