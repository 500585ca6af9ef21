"""`autosched schedule`: find a schedule, print its loop nest, save it as JSON."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from autosched.api import schedule as find_schedule
from autosched.commands.bottlenecks import bottlenecks_data, diagnoses_of, print_bottlenecks
from autosched.commands.explain import as_dict, print_explanation
from autosched.commands.files import check_directory, check_writable
from autosched.commands.fission import print_candidates, write_candidates
from autosched.commands.options import (
    MOST,
    PATH,
    Pairs,
    effort_option,
    fission_option,
    guide_option,
    json_option,
    polymage_weights_option,
    problem_options,
    search_options,
)
from autosched.commands.problem import configure
from autosched.commands.show import format_time, print_json
from autosched.commands.time_loop import check_mode, configure_loop, loop_options, print_loop
from autosched.commands.trials import how_text, print_trials, trials_data
from autosched.errors import InputError
from autosched.iteration.scheduled_time_loop import ScheduledTimeLoop
from autosched.plural import counted
from autosched.runtime.backends.factory import launch_info
from autosched.runtime.backends.kernel_info import KernelInfo
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.bottleneck.ncu_counters import read_counters
from autosched.search.strategies.polymage.polymage_strategy import Polymage
from autosched.search.strategies.polymage.settings import PolymageSettings
from autosched.search.tune.effort_levels import Effort
from autosched.search.tune.request import STRATEGY_NAMES
from autosched.settings import MOST_JOBS

MODES = ("one-shot", "top5")
TOP_K = 5


@click.command(short_help="Find a schedule and show it.")
@problem_options
@click.option(
    "--target", default="h200", show_default=True, help="GPU to schedule for, `cuda` (this machine's) or `cpu`."
)
@click.option(
    "--mode",
    type=click.Choice(MODES),
    default="one-shot",
    show_default=True,
    help="one-shot: the best by the cost model, of a few timed ones where the target is this machine's processor; "
    "top5: the best five are compiled and timed.",
)
@effort_option
@click.option(
    "--samples",
    type=click.IntRange(1, MOST),
    help="Searches that draw schedules: beam searches and greedy ones; by default as the effort has it.",
)
@click.option("--strategy", type=click.Choice(STRATEGY_NAMES), help="Search in this way only, without samples.")
@polymage_weights_option
@search_options
@click.option("--no-reuse", is_flag=True, help="Search even if a schedule is in the user's cache.")
@click.option(
    "--measure-finalists/--no-measure-finalists",
    default=None,
    help="Whether the best few are timed where the target is this machine's processor; by default as "
    "AUTOSCHED_HOST_TIMING says.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, MOST_JOBS),
    help="Processes of a long search; by default as AUTOSCHED_WORKERS says.",
)
@guide_option
@click.option(
    "--explain", "explained", is_flag=True,
    help="Show considered and pruned candidates, predictions, and each kernel's bottleneck with what to try.",
)  # fmt: skip
@click.option(
    "--counters", type=PATH, metavar="FILE.csv",
    help="Hardware counters of the schedule's kernels, by `ncu --csv`, for the bottlenecks of `--explain`.",
)  # fmt: skip
@click.option("--html", type=PATH, metavar="FILE.html", help="Where to write a report.")
@click.option("--out", type=PATH, metavar="FILE.json", help="Where to keep the schedule, for `autosched run`.")
@loop_options
@fission_option
@json_option
def schedule(
    app: str,
    inputs: Path | None,
    sizes: Pairs,
    params: Pairs,
    seed: int,
    target: str,
    mode: str,
    effort: Effort,
    samples: int | None,
    strategy: str | None,
    polymage_weights: str | None,
    seconds: float | None,
    cost: str | None,
    simulated: bool,
    no_reuse: bool,
    measure_finalists: bool | None,
    workers: int | None,
    guide: Path | None,
    explained: bool,
    counters: Path | None,
    html: Path | None,
    out: Path | None,
    times: int | None,
    fields: Pairs,
    fission_candidates: Path | None,
    as_json: bool,
) -> None:
    """Schedule APP without running it; needs no GPU."""
    check_writable(out, html)
    check_mode(times, fields)
    if counters is not None and not (explained or as_json):
        raise InputError("--counters are for the bottlenecks of --explain or --json: add one of them")
    if counters is not None and times is not None:
        raise InputError("--counters are of one schedule, and --times gives several: leave one of them out")
    profiles = None if counters is None else read_counters(counters)
    options: dict[str, Any] = {
        "strategy": strategy if polymage_weights is None else _polymage(strategy, polymage_weights),
        "effort": effort,
        "samples": samples,
        "top_k": TOP_K if mode == "top5" else 1,
        "cost": cost,
        "measure": "simulated" if simulated else "device",
        "seed": seed,
        "seconds": seconds,
        "reuse": not no_reuse,
        "measure_finalists": measure_finalists,
        "workers": workers,
        "guide": guide,
        "progress": _silent if as_json else None,
    }
    if fission_candidates is not None:
        if times is not None:
            raise InputError("--fission-candidates divides one pipeline: leave --times out")
        check_directory(fission_candidates)
    started = time.perf_counter()
    if times is not None:
        problem, loop = configure_loop(app, inputs, sizes, params, times, fields)
        scheduled_loop = loop.schedule(problem.shapes, target, problem.params, **options)
        taken = time.perf_counter() - started
        _write(scheduled_loop, html, out)
        print_loop(app, scheduled_loop, taken, (out, html), as_json)
        if explained and not as_json:
            for version in scheduled_loop.versions:
                click.echo(version.title)
                print_explanation(version.scheduled)
        return
    problem, _ = configure(app, inputs, sizes, params)
    scheduled = find_schedule(problem.pipeline, problem.shapes, target, problem.params, **options)
    taken = time.perf_counter() - started
    _write(scheduled, html, out)
    candidates = None
    if fission_candidates is not None:
        candidates = write_candidates(
            scheduled, fission_candidates, cost=cost, effort=effort, seed=seed, seconds=seconds
        )
    kernels = launch_info(scheduled.program)
    if as_json:
        searched = strategy is None or mode != MODES[0]  # a strategy alone has no mode
        how = {
            "mode": mode if searched else None,
            "strategy": strategy,
            "effort": effort,
            "samples": samples,
            "seed": seed,
        }
        data = _as_dict(app, scheduled, kernels, taken, how, out)
        if explained or profiles is not None:  # the resources are compiled
            data["bottlenecks"] = bottlenecks_data(diagnoses_of(scheduled, profiles))
        print_json(data if candidates is None else data | {"fission_candidates": candidates.to_data()})
        return
    click.echo(scheduled.text())
    count = counted(len(kernels), "kernel")
    click.echo(f"{count} for {scheduled.target.name}, {how_text(scheduled)}, found in {format_time(taken)}")
    print_trials(scheduled)
    if explained:
        print_explanation(scheduled)
        print_bottlenecks(diagnoses_of(scheduled, profiles))
    if candidates is not None:
        print_candidates(candidates)
    for file in (out, html):
        if file is not None:
            click.echo(f"wrote {file}")


def _write(scheduled: ScheduledPipeline | ScheduledTimeLoop, html: Path | None, out: Path | None) -> None:
    if html is not None:
        scheduled.report(html)
    if out is not None:
        scheduled.save(out)


def _polymage(strategy: str | None, weights: str) -> Polymage:
    """Return PolyMage-GPU's strategy with given weights.

    Raises:
        InputError: If another strategy is chosen, or there are no such weights.
    """
    if strategy != "polymage":
        raise InputError("--polymage-weights are of one strategy: add --strategy polymage, or leave them out")
    return Polymage(PolymageSettings.of_weights(weights))


def _silent(done: int, total: int) -> None:
    """Take the place of the progress bar."""


def _as_dict(
    app: str,
    scheduled: ScheduledPipeline,
    kernels: tuple[KernelInfo, ...],
    seconds: float,
    how: dict[str, Any],
    out: Path | None,
) -> dict[str, Any]:
    return {
        "app": app,
        "target": scheduled.target.name,
        **how,
        "seconds": seconds,
        "workspace_bytes": scheduled.program.workspace_bytes,
        "kernels": [
            {"name": k.name, "grid": list(k.grid), "block": list(k.block), "shared_bytes": k.shared_bytes}
            for k in kernels
        ],
        "loop_nest": scheduled.text(),
        "origin": None if scheduled.provenance is None else scheduled.provenance.to_data(),
        "trials": trials_data(scheduled),
        "search": as_dict(scheduled),
        "out": None if out is None else str(out),
    }
