"""`autosched export`: write an app's pipeline as C or CUDA source for projects without Python."""

from __future__ import annotations

from pathlib import Path

import click

from autosched.api import load_schedule
from autosched.api import schedule as find_schedule
from autosched.commands.options import PATH, SECONDS, Pairs, effort_option, json_option, problem_options
from autosched.commands.problem import CommandProblem, configure
from autosched.commands.show import print_json
from autosched.commands.time_loop import check_mode, configure_loop, loop_options
from autosched.errors import InputError
from autosched.iteration.scheduled_time_loop import ScheduledTimeLoop
from autosched.iteration.time_loop import TimeLoop
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.tune.effort_levels import Effort
from autosched.search.tune.request import STRATEGY_NAMES


@click.command(short_help="Write an app as C or CUDA source.")
@problem_options
@click.option("--out", type=PATH, metavar="DIR", required=True, help="Where to write the files.")
@click.option(
    "--target", default="h200", show_default=True, help="GPU to export for, `cuda` (this machine's) or `cpu`."
)
@click.option(
    "--schedule", "schedule_file", type=PATH, metavar="FILE.json", help="Schedule to use instead of finding one."
)
@click.option("--strategy", type=click.Choice(STRATEGY_NAMES), help="Search in this way only.")
@effort_option
@click.option("--seconds", type=SECONDS, help="Time budget of the search.")
@click.option("--name", metavar="NAME", help="Name of the function and its files; by default the pipeline's.")
@click.option("--fast-math", is_flag=True, help="Build CUDA with approximate arithmetic.")
@click.option("--any-alignment", is_flag=True, help="Take arrays that are only aligned to their elements.")
@loop_options
@json_option
def export(
    app: str,
    inputs: Path | None,
    sizes: Pairs,
    params: Pairs,
    seed: int,
    out: Path,
    target: str,
    schedule_file: Path | None,
    strategy: str | None,
    effort: Effort,
    seconds: float | None,
    name: str | None,
    fast_math: bool,
    any_alignment: bool,
    times: int | None,
    fields: Pairs,
    as_json: bool,
) -> None:
    """Write APP as source code that needs neither Python nor autosched.

    With --times, the function takes the number of steps.
    """
    check_mode(times, fields)
    scheduled: ScheduledPipeline | ScheduledTimeLoop
    if times is None:
        problem, _ = configure(app, inputs, sizes, params)
        scheduled = _scheduled(problem, target, schedule_file, strategy, effort, seed, seconds)
    else:
        problem, loop = configure_loop(app, inputs, sizes, params, times, fields)
        scheduled = _scheduled_loop(problem, loop, target, schedule_file, strategy, effort, seed, seconds)
    exported = scheduled.export(out, name=name, fast_math=fast_math, any_alignment=any_alignment)
    if as_json:
        print_json(
            {
                "app": app,
                "target": scheduled.target.name,
                "name": exported.name,
                "directory": str(exported.directory),
                "files": [str(file) for file in exported.files],
                "prototype": exported.prototype,
                "workspace_bytes": exported.workspace_bytes,
            }
        )
        return
    click.echo(f"{exported.prototype};")
    click.echo(f"for {scheduled.target.name}, {exported.workspace_bytes} bytes of workspace")
    for file in exported.files:
        click.echo(f"wrote {file}")


def _scheduled(
    problem: CommandProblem,
    target: str,
    schedule_file: Path | None,
    strategy: str | None,
    effort: Effort,
    seed: int,
    seconds: float | None,
) -> ScheduledPipeline:
    _check_search(schedule_file, strategy, effort, seconds)
    if schedule_file is not None:
        return load_schedule(schedule_file, problem.pipeline, problem.shapes, target, problem.params)
    return find_schedule(
        problem.pipeline, problem.shapes, target, problem.params, strategy=strategy, effort=effort, seed=seed,
        seconds=seconds,
    )  # fmt: skip


def _scheduled_loop(
    problem: CommandProblem,
    loop: TimeLoop,
    target: str,
    schedule_file: Path | None,
    strategy: str | None,
    effort: Effort,
    seed: int,
    seconds: float | None,
) -> ScheduledTimeLoop:
    _check_search(schedule_file, strategy, effort, seconds)
    if schedule_file is not None:
        return loop.load(schedule_file, problem.shapes, target, problem.params)
    return loop.schedule(
        problem.shapes, target, problem.params, strategy=strategy, effort=effort, seed=seed, seconds=seconds
    )  # fmt: skip


def _check_search(schedule_file: Path | None, strategy: str | None, effort: Effort, seconds: float | None) -> None:
    if schedule_file is not None and (strategy is not None or seconds is not None or effort != "default"):
        raise InputError("--schedule is exported without a search: leave out --strategy, --effort and --seconds")
