"""`autosched apps`: list, describe and check the applications of the suite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from autosched.apps import App, get_app, load_apps
from autosched.apps.app import Setting
from autosched.commands.check_apps import AppVerdict, check_app, missing_tools
from autosched.commands.options import json_option
from autosched.commands.show import format_time, print_json, print_table, shape_text
from autosched.lang.pipeline import Pipeline
from autosched.plural import counted

COLUMNS = ("app", "Funcs", "defs", "inputs", "sizes", "papers")
NAMED_INPUTS = 2
"""Most inputs of one shape that are listed by name; more are counted."""


@click.command(short_help="List or check the suite's applications.")
@click.argument("names", nargs=-1, metavar="[APP]...")
@click.option("--check", is_flag=True, help="Run each at its small size through all backends and compare the results.")
@json_option
@click.pass_context
def apps(context: click.Context, names: tuple[str, ...], check: bool, as_json: bool) -> None:
    """List the suite's applications; with names, describe the named ones.

    With --check, each is run at its small size, scheduled by `roots`, in the interpreter, through the C backend and in
    the emulator; its kernels are compiled for the H200; and all outputs are compared with those of a reference that
    shares no code with this library. The exit code is 1 if anything differs.
    """
    chosen = [get_app(name) for name in dict.fromkeys(names)] or list(load_apps().values())
    if check:
        _check(context, chosen, as_json)
    elif as_json:
        print_json([_as_dict(app) for app in chosen])
    elif names:
        click.echo("\n\n".join(_details(app) for app in chosen))
    else:
        print_table(COLUMNS, [_as_row(app) for app in chosen])
        click.echo("\ndefs: pure definitions and updates of the Funcs.")
        click.echo("`autosched apps APP` describes an app, `autosched apps --check` checks them all.")


def _check(context: click.Context, chosen: Iterable[App], as_json: bool) -> None:
    """Check apps one by one; each is reported as soon as it is done."""
    verdicts = []
    missing = missing_tools()
    if not as_json:
        for name, reason in missing.items():
            click.echo(f"not checked: {name}, since {reason}")
    for app in chosen:
        verdicts.append(check_app(app, missing))
        if not as_json:
            click.echo(_verdict_text(verdicts[-1], missing))
    wrong = [verdict.app for verdict in verdicts if not verdict.ok]
    if as_json:
        print_json([verdict.as_dict() for verdict in verdicts])
    elif not wrong:
        click.echo(_of_all(len(verdicts), len(verdicts), "right"))
    if wrong:
        click.echo(f"error: {_of_all(len(wrong), len(verdicts), 'wrong')}: {', '.join(wrong)}", err=True)
        context.exit(1)


def _of_all(count: int, total: int, what: str) -> str:
    """Return ``1 of 2 apps is wrong`` and the like."""
    return f"{count} of {counted(total, 'app')} {'is' if count == 1 else 'are'} {what}"


def _verdict_text(verdict: AppVerdict, missing: Mapping[str, str]) -> str:
    """Return one line, and one more for every failed check and every check skipped for this app alone."""
    made = [name for name, problem in verdict.problems.items() if problem is None]
    line = (
        f"{verdict.app:<24}  {'ok' if verdict.ok else 'WRONG':<5}  {format_time(verdict.seconds):>7}  {', '.join(made)}"
    )
    notes = [f"not checked: {name}: {reason}" for name, reason in verdict.skipped.items() if name not in missing]
    wrong = [f"{name}: {problem}" for name, problem in verdict.problems.items() if problem is not None]
    return "\n    ".join([line, *notes, *wrong])


def _as_dict(app: App) -> dict[str, Any]:
    pipeline = app.build()
    dtypes = {i.name: str(i.dtype) for i in pipeline.inputs}
    return {
        "name": app.name,
        "summary": app.summary,
        "papers": list(app.papers),
        "funcs": len(pipeline.funcs),
        "definitions": _definitions(pipeline),
        "inputs": {
            name: {"dtype": dtypes[name], "shape": [str(extent) for extent in extents]}
            for name, extents in app.extents.items()
        },
        "outputs": list(pipeline.output_names),
        "sizes": dict(app.default_sizes),
        "small_sizes": dict(app.small_sizes),
        "params": app.params,
    }


def _definitions(pipeline: Pipeline) -> int:
    return sum(len(f.definitions) for f in pipeline.funcs)


def _as_row(app: App) -> tuple[str, ...]:
    description = _as_dict(app)
    return (
        app.name,
        str(description["funcs"]),
        str(description["definitions"]),
        "\n".join(
            f"{', '.join(names) if len(names) <= NAMED_INPUTS else len(names)} {kind}"
            for kind, names in _by_shape(description["inputs"]).items()
        ),
        _sizes_text(app.default_sizes),
        app.origin,
    )


def _details(app: App) -> str:
    """Return the description of an app, one fact per line."""
    description = _as_dict(app)
    facts = [("computes", app.summary)]
    facts += [("input", f"{', '.join(names)} {kind}") for kind, names in _by_shape(description["inputs"]).items()]
    facts += [
        ("output", ", ".join(description["outputs"])),
        ("sizes", f"{_sizes_text(app.default_sizes)}; for tests {_sizes_text(app.small_sizes)}"),
        ("parameters", " ".join(f"{name}={_setting_text(value)}" for name, value in app.params.items()) or "none"),
        ("stages", f"{description['funcs']} Funcs with {description['definitions']} definitions"),
        ("papers", app.origin),
    ]
    return "\n".join([app.name, *(f"  {title:<10}  {text}" for title, text in facts)])


def _by_shape(inputs: dict[str, Any]) -> dict[str, list[str]]:
    """Return the names of the inputs of each element type and shape."""
    names: dict[str, list[str]] = {}
    for name, i in inputs.items():
        names.setdefault(shape_text(i["dtype"], i["shape"]), []).append(name)
    return names


def _setting_text(value: Setting | None) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _sizes_text(sizes: Any) -> str:
    return " ".join(f"{key}={n}" for key, n in sizes.items())
