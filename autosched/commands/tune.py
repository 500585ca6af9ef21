"""`autosched tune`: repeat search, measurement and training within a time or iteration budget."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autosched.api import autotune
from autosched.commands.exit_handling import INTERRUPTED
from autosched.commands.files import check_directory, check_writable
from autosched.commands.fission import print_candidates, write_candidates
from autosched.commands.options import (
    MOST,
    PATH,
    SECONDS,
    Pairs,
    fission_option,
    guide_option,
    json_option,
    problem_options,
)
from autosched.commands.problem import CommandProblem, configure
from autosched.commands.progress import tuning
from autosched.commands.show import format_time, print_json, print_table
from autosched.commands.time_loop import check_mode, configure_loop, loop_options, print_loop
from autosched.commands.trials import print_trials, trials_data
from autosched.commands.tune_plan import plan_data, print_plan, run_plan
from autosched.errors import InputError
from autosched.plural import counted
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.settings import SAMPLES
from autosched.search.tune.autotune.counts_text import counts_text
from autosched.search.tune.plan.levels import PLANS, PlanLevel, plan_levels

if TYPE_CHECKING:
    from autosched.search.tune.autotune.report import Tuned

ITERATIONS = 20
LEAST_SECONDS = 5.0
"""Time of the searches for fission candidates where the budget of a plan is spent."""


@click.command(short_help="Measure schedules and train the cost model on them.")
@problem_options
@click.option(
    "--target", default="h200", show_default=True, help="GPU to schedule for, `cuda` (this machine's) or `cpu`."
)
@click.option("--iterations", type=click.IntRange(1, MOST), default=ITERATIONS, show_default=True, help="Batches.")
@click.option(
    "--samples", type=click.IntRange(2, MOST), default=SAMPLES, show_default=True, help="Schedules of a batch."
)
@click.option("--seconds", type=SECONDS, help="Time budget; the best so far is kept.")
@click.option(
    "--db", "database", type=PATH, metavar="FILE.sqlite",
    help="Where results go; schedule, weights and state lie beside it. By default a place in the user's cache.",
)  # fmt: skip
@click.option("--resume", is_flag=True, help="Go on with the run whose files lie beside the database.")
@click.option(
    "--weights", metavar="FILE", help="Initial weights, or `random`: analytical times; by default the shipped ones."
)
@click.option("--simulated", is_flag=True, help="Time schedules on a simulated GPU instead of the device.")
@guide_option
@click.option(
    "--plan", type=click.Choice(tuple(PLANS)),
    help="Tune level by level, as the bottlenecks of the kernels suggest, instead of by batches.",
)  # fmt: skip
@click.option(
    "--levels", metavar="LEVEL,...",
    help=f"Levels of the plan, in their order: {', '.join(level.value for level in PlanLevel)}; by default all.",
)  # fmt: skip
@click.option("--out", type=PATH, metavar="FILE.json", help="Where to keep the schedule, too.")
@click.option("--html", type=PATH, metavar="FILE.html", help="Where to write a report.")
@loop_options
@fission_option
@json_option
def tune(
    app: str,
    inputs: Path | None,
    sizes: Pairs,
    params: Pairs,
    seed: int,
    target: str,
    iterations: int,
    samples: int,
    seconds: float | None,
    database: Path | None,
    resume: bool,
    weights: str | None,
    simulated: bool,
    guide: Path | None,
    plan: str | None,
    levels: str | None,
    out: Path | None,
    html: Path | None,
    times: int | None,
    fields: Pairs,
    fission_candidates: Path | None,
    as_json: bool,
) -> None:
    """Tune APP's schedule: every batch is searched for, compiled, compared, timed, and learned from.

    Results are stored at once; --resume continues an interrupted run without measuring anything twice. With --times,
    1, 2, 3, ... fused steps are tuned as long as fusion pays (deep tuning), each with files of its own.

    With --plan the schedule of the search is tuned instead: its structure as the bottlenecks of its kernels suggest,
    then blocks and unrolling, then prefetch, streaming and perspective of the best few. No weights are trained, and
    there is nothing to resume.
    """
    check_writable(out, html)
    check_mode(times, fields)
    if plan is None and levels is not None:
        raise InputError("--levels are those of a plan: add --plan artemis")
    if plan is None and fission_candidates is not None:
        raise InputError("--fission-candidates are written by a plan, or by `autosched schedule`: add --plan artemis")
    if plan is not None:
        if times is not None:
            raise InputError("--plan tunes one schedule, and --times gives several: leave one of them out")
        problem, _ = configure(app, inputs, sizes, params)
        if database is not None or resume or weights is not None:
            raise InputError("--plan trains no weights and stores no batches: leave out --db, --resume and --weights")
        _tune_by_plan(
            app, problem, target, plan, plan_levels(plan, levels), guide=guide, seconds=seconds, simulated=simulated,
            seed=seed, out=out, html=html, fission=fission_candidates, as_json=as_json,
        )  # fmt: skip
        return
    options: dict[str, Any] = {
        "iterations": iterations, "samples": samples, "seconds": seconds, "database": database, "resume": resume,
        "weights": weights, "measure": "simulated" if simulated else "device", "seed": seed, "guide": guide,
    }  # fmt: skip
    started = time.perf_counter()
    try:
        with tuning(quiet=as_json) as report:
            if times is not None:
                problem, loop = configure_loop(app, inputs, sizes, params, times, fields)
                scheduled_loop = loop.autotune(problem.shapes, target, problem.params, report=report, **options)
            else:
                problem, _ = configure(app, inputs, sizes, params)
                scheduled = autotune(
                    problem.pipeline, problem.shapes, target, problem.params, report=report, **options
                )  # fmt: skip
    except KeyboardInterrupt:
        click.echo("interrupted; measurements are kept, and the same command with --resume continues", err=True)
        sys.exit(INTERRUPTED)
    elapsed = time.perf_counter() - started
    if times is not None:
        if out is not None:
            scheduled_loop.save(out)
        if html is not None:
            scheduled_loop.report(html)
        print_loop(app, scheduled_loop, elapsed, (out, html), as_json)
        _exit_if_wrong([v.scheduled.tuned for v in scheduled_loop.versions])
        return
    assert scheduled.tuned is not None
    if as_json:
        print_json(_as_dict(app, scheduled, scheduled.tuned, elapsed))
    else:
        _print(scheduled, scheduled.tuned, elapsed)
    _write(scheduled, out, html, quiet=as_json)
    _exit_if_wrong([scheduled.tuned])


def _tune_by_plan(
    app: str,
    problem: CommandProblem,
    target: str,
    plan: str,
    levels: tuple[PlanLevel, ...],
    *,
    guide: Path | None,
    seconds: float | None,
    simulated: bool,
    seed: int,
    out: Path | None,
    html: Path | None,
    fission: Path | None,
    as_json: bool,
) -> None:
    """Tune by a plan, print and write what it found, and write fission candidates into a directory."""
    if fission is not None:
        check_directory(fission)
    started = time.monotonic()
    planned, result = run_plan(
        problem, target, plan, levels, guide=guide, seconds=seconds, simulated=simulated, seed=seed, quiet=as_json
    )  # fmt: skip
    candidates = None
    if fission is not None:
        left = None if seconds is None else max(seconds - (time.monotonic() - started), LEAST_SECONDS)
        candidates = write_candidates(planned, fission, cost=None, effort="default", seed=seed, seconds=left)
    if as_json:
        data = plan_data(app, planned, result)
        print_json(data if candidates is None else data | {"fission_candidates": candidates.to_data()})
    else:
        print_plan(planned, result)
        if candidates is not None:
            print_candidates(candidates)
    _write(planned, out, html, quiet=as_json)


def _exit_if_wrong(runs: Sequence[Tuned | None]) -> None:
    if any(tuned is not None and tuned.failures.get("wrong_result") for tuned in runs):
        click.echo("error: some schedules computed a wrong result; this is a mistake of autosched, please report it",
                   err=True)  # fmt: skip
        sys.exit(1)


def _write(scheduled: ScheduledPipeline, out: Path | None, html: Path | None, *, quiet: bool) -> None:
    """Write the schedule and the report."""
    if out is not None:
        scheduled.save(out)
    if html is not None:
        scheduled.report(html)
    for file in (out, html):
        if file is not None and not quiet:
            click.echo(f"wrote {file}")


def _print(found: ScheduledPipeline, tuned: Tuned, taken: float) -> None:
    click.echo(found.text())
    rows = [
        ("baseline", "" if math.isnan(tuned.baseline_seconds) else format_time(tuned.baseline_seconds)),
        ("fastest", format_time(tuned.seconds)),
        ("predicted", "" if tuned.predicted is None else format_time(tuned.predicted)),
    ]
    print_table(("", f"time, {tuned.source}"), rows)
    print_trials(found)
    errors = ", ".join("-" if e is None else f"{e:.2f}" for e in tuned.errors)
    measured = counted(tuned.measured, "schedule")
    click.echo(f"{measured} measured; the model was off by a factor of {errors or '-'} (by batch)")
    for number, counts in enumerate(tuned.classes, 1):
        click.echo(f"batch {number}: {counts_text(counts)}")
    if tuned.failures:
        click.echo("no time: " + ", ".join(f"{n} {what}" for what, n in tuned.failures.items()))
    if tuned.cut_short:
        click.echo("the time budget was over before all iterations; --resume goes on")
    files = tuned.files
    click.echo(f"schedule in {files.schedule}, weights in {files.weights}, results in {files.database}")
    click.echo(f"took {format_time(taken)}")


def _as_dict(app: str, found: ScheduledPipeline, tuned: Tuned, taken: float) -> dict[str, Any]:
    return {
        "app": app,
        "target": found.target.name,
        "source": tuned.source,
        "seconds": taken,
        "best_seconds": tuned.seconds,
        "predicted_seconds": tuned.predicted,
        "baseline_seconds": tuned.baseline_seconds,
        "measured": tuned.measured,
        "failures": dict(tuned.failures),
        "model_error": list(tuned.errors),
        "classes": [dict(counts) for counts in tuned.classes],
        "cut_short": tuned.cut_short,
        "trials": trials_data(found),
        "schedule": str(tuned.files.schedule),
        "weights": str(tuned.files.weights),
        "database": str(tuned.files.database),
        "loop_nest": found.text(),
    }
