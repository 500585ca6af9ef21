"""`autosched tune --plan`: level by level, as the bottlenecks of the kernels suggest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from autosched.analysis.bind import bind
from autosched.commands.bottlenecks import bottlenecks_data, print_bottlenecks
from autosched.commands.problem import CommandProblem
from autosched.commands.show import format_time, print_table
from autosched.commands.trials import print_trials, trials_data
from autosched.plural import counted
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.guidance.guide_checks import check_guide
from autosched.search.guidance.guide_file import as_guide
from autosched.search.tune.plan.artemis_plan import PlanProgress, PlanResult
from autosched.search.tune.plan.levels import PlanLevel
from autosched.search.tune.plan.plan_run import tune_by_plan
from autosched.target import get_target


def run_plan(
    problem: CommandProblem,
    target: str,
    plan: str,
    levels: tuple[PlanLevel, ...],
    *,
    guide: Path | None,
    seconds: float | None,
    simulated: bool,
    seed: int,
    quiet: bool,
) -> tuple[ScheduledPipeline, PlanResult]:
    """Tune a problem by a plan; the progress goes to stderr."""
    device = get_target(target)
    bound = bind(problem.pipeline, problem.shapes, problem.params)
    chosen = as_guide(guide)
    check_guide(bound, chosen, device)

    def tell(progress: PlanProgress) -> None:
        best = "" if progress.measured == 0 else f", best {format_time(progress.best)}"
        click.echo(f"{progress.level or 'baseline'}: {counted(progress.measured, 'schedule')} measured{best}", err=True)

    result, provenance, trials = tune_by_plan(
        bound, device, plan, levels, problem.params, seconds=seconds,
        measure="simulated" if simulated else "device", seed=seed, report=None if quiet else tell,
        guide=chosen, keep=not chosen,
    )  # fmt: skip
    scheduled = ScheduledPipeline(
        bound, result.best.schedule, device, problem.params, provenance=provenance, trials=trials
    )  # fmt: skip
    return scheduled, result


def print_plan(scheduled: ScheduledPipeline, result: PlanResult) -> None:
    """Print the result: schedule, times by level, bottlenecks before and after, and what to try next."""
    click.echo(scheduled.text())
    print_table(("after", "fastest"), [(name, format_time(seconds)) for name, seconds in result.by_level])
    print_trials(scheduled)
    click.echo("bottlenecks of the baseline:")
    print_bottlenecks(result.before)
    click.echo("bottlenecks of the fastest schedule:")
    print_bottlenecks(result.after)
    if result.registers:
        click.echo(f"kernels were allowed {result.registers} registers a thread")
    if result.cut_short:
        click.echo("the time budget was over before all levels")


def plan_data(app: str, scheduled: ScheduledPipeline, result: PlanResult) -> dict[str, Any]:
    """Return the result as plain data."""
    return {
        "app": app,
        "target": scheduled.target.name,
        "best_seconds": result.seconds,
        "baseline_seconds": result.baseline.seconds,
        "levels": dict(result.by_level),
        "registers": result.registers,
        "cut_short": result.cut_short,
        "measured": len(result.trials),
        "before": bottlenecks_data(result.before),
        "after": bottlenecks_data(result.after),
        "trials": trials_data(scheduled),
        "loop_nest": scheduled.text(),
    }
