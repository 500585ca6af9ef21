"""`autosched calibrate`: measure the scale of predictions on this machine's processor."""

from __future__ import annotations

from dataclasses import asdict

import click

from autosched.commands.options import json_option
from autosched.commands.show import format_time, print_json
from autosched.plural import counted
from autosched.search.calibration.scale_cache import measure_scale
from autosched.search.tune.cost_models import cost_model
from autosched.target import get_target


@click.command(short_help="Measure the scale of predictions for this processor.")
@json_option
def calibrate(as_json: bool) -> None:
    """Measure the scale of predicted times on this machine's processor; takes some seconds on an idle machine.

    Small kernels are timed on all cores of the target `cpu`. The result is stored in the cache directory and replaces
    an earlier one. Searches for `cpu` use it for the times that they report; it changes no schedule.
    """
    target = get_target("cpu")
    model = cost_model(None, target)
    scale = measure_scale(target, model)
    if as_json:
        print_json({"target": target.name, "cores": target.multiprocessors, "model": model.name, **asdict(scale)})
        return
    click.echo(f"{model.name}, {counted(target.multiprocessors, 'core')}: {scale}")
    if scale.is_measured:
        click.echo(f"{format_time(scale.call_s)} a call; the factor spreads by {100 * scale.spread:.1f} %")
