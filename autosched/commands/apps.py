"""`autosched apps`: what the suite holds."""

from __future__ import annotations

from typing import Any

import click

from autosched.apps import App, load_apps
from autosched.commands.options import json_option
from autosched.commands.show import print_json, print_table, shape_text


@click.command(short_help="List the suite's applications.")
@json_option
def apps(as_json: bool) -> None:
    """List the suite's applications: inputs, sizes, parameters, outputs."""
    suite = load_apps().values()
    if as_json:
        print_json([_as_dict(app) for app in suite])
        return
    print_table(("app", "inputs", "outputs", "sizes", "parameters"), [_as_row(app) for app in suite])


def _as_dict(app: App) -> dict[str, Any]:
    pipeline = app.build()
    dtypes = {i.name: str(i.dtype) for i in pipeline.inputs}
    return {
        "name": app.name,
        "papers": list(app.papers),
        "inputs": {
            name: {"dtype": dtypes[name], "shape": [str(extent) for extent in extents]}
            for name, extents in app.extents.items()
        },
        "outputs": list(pipeline.output_names),
        "sizes": dict(app.default_sizes),
        "params": app.params,
    }


def _as_row(app: App) -> tuple[str, ...]:
    described = _as_dict(app)
    return (
        app.name,
        ", ".join(f"{name} {shape_text(i['dtype'], i['shape'])}" for name, i in described["inputs"].items()),
        ", ".join(described["outputs"]),
        " ".join(f"{key}={n}" for key, n in app.default_sizes.items()),
        " ".join(f"{name}={value}" for name, value in app.params.items()),
    )
