"""The three modes on suite apps: what each takes to find a schedule, and how fast that is; prints Markdown.

    python scripts/compare_modes.py --apps harris,unsharp,camera_pipe --target cpu
    python scripts/compare_modes.py --apps harris,unsharp,camera_pipe --target h200 --simulated

On a processor the schedules of all modes are timed once more in the end, in turn in one process, and the medians
printed; on the simulated device, which gives the same time each time, its times are. Nothing is taken from the user's
cache or kept there.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autosched.api import ScheduledPipeline, autotune, schedule
from autosched.apps import App, get_app
from autosched.commands.show import time_text
from autosched.errors import AutoschedError
from autosched.measure.simulated.simulate import simulate
from autosched.target import Target, get_target

MODES = ("roots", "one-shot", "top-5", "autotune")


def found_by(app: App, target: Target, options: argparse.Namespace, directory: Path) -> dict[str, ScheduledPipeline]:
    """Return the schedule of each mode, and print what finding it took."""
    pipeline, params = app.configure({})
    given: tuple[Any, ...] = (pipeline, app.shapes(), target, params)
    where = "simulated" if options.simulated else "device"
    searched = {"samples": options.samples, "seed": options.seed, "reuse": False, "measure": where}
    ways = {
        "roots": lambda: schedule(*given, strategy="roots"),
        "one-shot": lambda: schedule(*given, **searched),
        "top-5": lambda: schedule(*given, top_k=5, **searched),
        "autotune": lambda: autotune(
            *given, iterations=options.iterations, samples=options.batch, seed=options.seed, measure=where, keep=False,
            database=directory / f"{app.name}.sqlite",
        ),
    }  # fmt: skip
    found = {}
    for mode in MODES:
        started = time.perf_counter()
        found[mode] = ways[mode]()
        print(f"{app.name}, {mode}: found in {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
        describe(found[mode])
    return found


def describe(found: ScheduledPipeline) -> None:
    """Print predicted beside measured times, where there are any."""
    for t in found.trials.trials if found.trials else ():
        print(f"  {t.origin}: predicted {t.predicted:.4g} s, {t.seconds:.4g} s {t.problem}", file=sys.stderr)
    if found.tuned is not None:
        errors = [None if e is None else round(e, 2) for e in found.tuned.errors]
        print(
            f"  {found.tuned.measured} measured, model off by {errors}, {found.tuned.failures or 'none failed'}",
            file=sys.stderr,
        )


def timed(app: App, found: Mapping[str, ScheduledPipeline], options: argparse.Namespace) -> dict[str, float]:
    """Return the seconds of each mode's schedule, all taken in the same way."""
    if options.simulated:
        return {mode: simulate(s.bound, s.schedule, s.target).seconds for mode, s in found.items()}
    kernels = {mode: s.compile("cpu") for mode, s in found.items()}
    inputs = app.make_inputs()
    samples: dict[str, list[float]] = {mode: [] for mode in found}
    for round_ in range(options.rounds + 1):
        for mode, kernel in kernels.items():
            started = time.perf_counter()
            kernel(inputs)
            if round_:  # not the first: arrays are touched for the first time
                samples[mode].append(time.perf_counter() - started)
    return {mode: statistics.median(s) for mode, s in samples.items()}


def table(rows: Mapping[str, Mapping[str, float]]) -> str:
    """Return the times as a Markdown table."""
    lines = ["| app | " + " | ".join(MODES) + " |", "|---|" + "---|" * len(MODES)]
    lines += [f"| {app} | " + " | ".join(time_text(row[m]) for m in MODES) + " |" for app, row in rows.items()]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", default="harris,unsharp,camera_pipe")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--simulated", action="store_true", help="time on the simulated device")
    parser.add_argument("--samples", type=int, default=80, help="searches of the first two modes (default 80)")
    parser.add_argument("--iterations", type=int, default=5, help="batches of tuning (default 5)")
    parser.add_argument("--batch", type=int, default=20, help="schedules of a batch (default 20)")
    parser.add_argument("--rounds", type=int, default=20, help="runs of each schedule in the end (default 20)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    rows = {}
    try:
        target = get_target(options.target)
        with tempfile.TemporaryDirectory(prefix="autosched-modes-") as directory:
            for name in options.apps.split(","):
                app = get_app(name)
                rows[name] = timed(app, found_by(app, target, options, Path(directory)), options)
    except AutoschedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"Times: {'simulated' if options.simulated else 'measured'}, target {target.name}\n")
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
