"""Compare the three modes on suite apps: search time and run time of the schedule; prints Markdown.

    python scripts/compare_modes.py --apps harris,unsharp,camera_pipe --target cpu
    python scripts/compare_modes.py --apps harris,unsharp,camera_pipe --target h200 --simulated

At the end, the schedules of all modes are timed again, interleaved, in several processes in sequence, with cold inputs
as in the search. Medians, half the interquartile range, and ratios within a round are printed. Times of the simulated
device are deterministic. The user's cache is neither read nor written.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosched.api import autotune, schedule
from autosched.apps import App, get_app
from autosched.commands.show import format_time
from autosched.errors import AutoschedError
from autosched.measure.backends.selection import backend_for
from autosched.measure.compare.interleaved_comparison import InterleavedComparison
from autosched.measure.compile.content_keys import schedule_text
from autosched.measure.job import Job
from autosched.measure.problem import Problem
from autosched.runtime.timing.interleaved import Rounds, RoundsRule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.target import Target, get_target

MODES = ("roots", "one-shot", "top-5", "autotune")


def found_by(app: App, target: Target, options: argparse.Namespace, directory: Path) -> dict[str, ScheduledPipeline]:
    """Return the schedule of each mode, and print its search time."""
    pipeline, params = app.configure({})
    given: tuple[Any, ...] = (pipeline, app.shapes(), target, params)
    where = _where(options)
    searched = {"samples": options.samples, "seed": options.seed, "reuse": False, "measure": where}
    modes = {
        "roots": lambda: schedule(*given, strategy="roots"),
        "one-shot": lambda: schedule(*given, measure_finalists=False, **searched),
        "top-5": lambda: schedule(*given, top_k=5, **searched),
        "autotune": lambda: autotune(
            *given, iterations=options.iterations, samples=options.batch, seed=options.seed, measure=where, keep=False,
            database=directory / f"{app.name}.sqlite",
        ),
    }  # fmt: skip
    schedules = {}
    for mode in MODES:
        started = time.perf_counter()
        schedules[mode] = modes[mode]()
        print(f"{app.name}, {mode}: found in {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
        describe(schedules[mode])
    return schedules


def describe(scheduled: ScheduledPipeline) -> None:
    """Print predicted and measured times, if any."""
    for t in scheduled.trials.trials if scheduled.trials else ():
        again = "" if t.again_s is None else f", again {t.again_s:.4g} s"
        print(f"  {t.origin}: predicted {t.predicted:.4g} s, {t.first_s:.4g} s{again} {t.problem}", file=sys.stderr)
    if scheduled.tuned is not None:
        errors = [None if e is None else round(e, 2) for e in scheduled.tuned.errors]
        print(
            f"  {scheduled.tuned.measured} measured, model off by {errors}, "
            f"{scheduled.tuned.failures or 'none failed'}",
            file=sys.stderr,
        )


@dataclass(frozen=True)
class Row:
    """Times of an app's schedules, all measured in the same way.

    Attributes:
        columns: Column of each mode's schedule in the rounds; modes with equal schedules share one.
        rounds: The times.
    """

    columns: Mapping[str, int]
    rounds: Rounds

    def cells(self) -> list[str]:
        """Return the median and, unless it is zero, the spread of each mode."""
        times = [self.rounds.median_and_spread(self.columns[mode]) for mode in MODES]
        return [format_time(median) + (f" (±{spread / 2:.0%})" if spread else "") for median, spread in times]

    def ratios(self) -> list[str]:
        """Return each mode's time over that of the previous mode, with a 95 % interval."""
        return [self._ratio(one, other) for other, one in itertools.pairwise(MODES)]

    def _ratio(self, one: str, other: str) -> str:
        a, b = self.columns[one], self.columns[other]
        if a == b:
            return f"{one} is {other}"
        low, high = self.rounds.interval(a, b)
        interval = f" ({low:.3f} to {high:.3f})" if high > low else ""
        return f"{one} / {other} {self.rounds.ratio(a, b):.3f}{interval}"


def timed(schedules: Mapping[str, ScheduledPipeline], options: argparse.Namespace) -> Row:
    """Time the distinct schedules of all modes, interleaved, with cold inputs."""
    first = schedules[MODES[0]]
    problem = Problem.of(first.bound, {name: value.item() for name, value in first.signature.defaults.items()})
    texts = {mode: schedule_text(s.bound, s.schedule) for mode, s in schedules.items()}
    distinct = list(dict.fromkeys(texts.values()))
    jobs = [Job(problem, text, first.target) for text in distinct]
    rounds = Rounds(())
    for _ in range(1 if options.simulated else options.processes):
        with InterleavedComparison(backend_for(first.target, _where(options))) as comparer:
            rounds += comparer.compare(jobs, RoundsRule(options.rounds, options.rounds))
    return Row({mode: distinct.index(text) for mode, text in texts.items()}, rounds)


def _where(options: argparse.Namespace) -> str:
    return "simulated" if options.simulated else "device"


def table(rows: Mapping[str, Row]) -> str:
    """Return the times as a Markdown table, followed by the ratios of the modes."""
    lines = ["| app | " + " | ".join(MODES) + " |", "|---|" + "---|" * len(MODES)]
    lines += [f"| {app} | " + " | ".join(row.cells()) + " |" for app, row in rows.items()]
    return "\n".join([*lines, "", *(f"{app}: {', '.join(row.ratios())}" for app, row in rows.items())])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", default="harris,unsharp,camera_pipe")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--simulated", action="store_true", help="time on the simulated device")
    parser.add_argument("--samples", type=int, default=80, help="searches of the first two modes (default 80)")
    parser.add_argument("--iterations", type=int, default=5, help="batches of tuning (default 5)")
    parser.add_argument("--batch", type=int, default=20, help="schedules of a batch (default 20)")
    parser.add_argument("--rounds", type=int, default=31, help="runs of each schedule in a process (default 31)")
    parser.add_argument("--processes", type=int, default=3, help="processes that time the schedules (default 3)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    rows = {}
    try:
        target = get_target(options.target)
        with tempfile.TemporaryDirectory(prefix="autosched-modes-") as directory:
            for name in options.apps.split(","):
                app = get_app(name)
                rows[name] = timed(found_by(app, target, options, Path(directory)), options)
    except AutoschedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"Times: {'simulated' if options.simulated else 'measured'}, target {target.name}\n")
    print(table(rows))
    return 0
