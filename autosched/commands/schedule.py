"""`autosched schedule`: find a schedule, show its loop nest, keep it as JSON."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from autosched.api import ScheduledPipeline
from autosched.api import schedule as find_schedule
from autosched.commands.explain import as_dict, print_explanation, write_report
from autosched.commands.options import PATH, Pairs, json_option, problem_options
from autosched.commands.problem import configure
from autosched.commands.show import print_json, time_text
from autosched.runtime.executable import KernelInfo, launch_info
from autosched.search.strategy import STRATEGIES


@click.command(short_help="Find a schedule and show it.")
@problem_options
@click.option(
    "--target", default="h200", show_default=True, help="GPU to schedule for, `cuda` (this machine's) or `cpu`."
)
@click.option("--mode", type=click.Choice(["one-shot"]), default="one-shot", show_default=True, help="How to search.")
@click.option("--strategy", type=click.Choice(list(STRATEGIES)), default="roots", show_default=True,
              help="What to search with.")  # fmt: skip
@click.option("--seconds", type=click.FloatRange(min=0), help="Time budget of the search.")
@click.option("--explain", "explained", is_flag=True, help="Show what was considered, pruned and predicted.")
@click.option("--html", type=PATH, metavar="FILE.html", help="Where to write a report of the search.")
@click.option("--out", type=PATH, metavar="FILE.json", help="Where to keep the schedule, for `autosched run`.")
@json_option
def schedule(
    app: str,
    inputs: Path | None,
    sizes: Pairs,
    params: Pairs,
    seed: int,
    target: str,
    mode: str,
    strategy: str,
    seconds: float | None,
    explained: bool,
    html: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Schedule APP without running it; needs no GPU."""
    problem, _ = configure(app, inputs, sizes, params)
    started = time.perf_counter()
    scheduled = find_schedule(
        problem.pipeline, problem.shapes, target, problem.params, strategy=strategy, seed=seed, seconds=seconds
    )
    taken = time.perf_counter() - started
    if html is not None:
        write_report(html, app, scheduled)
    if out is not None:
        scheduled.save(out)
    kernels = launch_info(scheduled.program)
    if as_json:
        print_json(_as_dict(app, scheduled, kernels, taken, {"mode": mode, "strategy": strategy, "seed": seed}, out))
        return
    click.echo(scheduled.text())
    count = f"{len(kernels)} kernel{'s' * (len(kernels) != 1)}"
    click.echo(f"{count} for {scheduled.target.name}, {strategy}, found in {time_text(taken)}")
    if explained:
        print_explanation(scheduled)
    for file in (out, html):
        if file is not None:
            click.echo(f"wrote {file}")


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
        "search": as_dict(scheduled),
        "out": None if out is None else str(out),
    }
