"""Step: autotuning of apps on the device, several side by side, within a time for each (Anderson, section 8)."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autosched.errors import AutoschedError, InputError
from autosched.measure.backend import Backend
from autosched.measure.problem import Problem
from autosched.measure.settings import MeasureSettings
from autosched.search.tune.autotune.loop import Tuner
from autosched.search.tune.autotune.report import Tuned
from autosched.search.tune.autotune.settings import TuneSettings
from autosched.search.tune.autotune.state import TuningFiles
from autosched.target import Target
from campaign.collect import backend_of
from campaign.context import Context, Outcome
from campaign.problems import PAPER, SMALL, problem_of, target_of
from campaign.results import Part
from campaign.worker_pool import Lost, do_parts

TUNING_DIRECTORY = "tuning"
AT_A_TIME = 4
"""Apps tuned side by side: one draws candidates while others are timed."""
_LEAST_S = 5.0
_ENDING_S = 30.0
"""Time to end after the budget: the candidates in flight, and the comparison of the best."""


@dataclass(frozen=True)
class AppTuner:
    """Tunes apps in a worker process.

    Attributes:
        target: Target of the schedules.
        backend: Backend of the measurements.
        settings: Settings of each run.
        directory: Directory of the results, which a later run continues.
        seconds: Time of a run.
        processes: Processes that compile.
    """

    target: Target
    backend: Backend
    settings: TuneSettings
    directory: str
    seconds: float
    processes: int

    def tune(self, app: tuple[str, str]) -> Part:
        """Tune an app, given by its name and the text of its problem, or continue; return its figures."""
        name, text = app
        started = time.perf_counter()
        try:
            tuner = self._tuner(Path(self.directory) / f"{name}.sqlite", Problem.parse(text))
            tuned = tuner.run(self.seconds)
        except AutoschedError as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return part_of(tuner, tuned) | {"seconds": time.perf_counter() - started}

    def _tuner(self, database: Path, problem: Problem) -> Tuner:
        """Return a tuner that continues from its files; files of another version keep their measurements only."""
        measure = MeasureSettings(compile_processes=self.processes, trust_limit_s=60.0, time_limit_s=20.0)
        files = TuningFiles(database)
        with suppress(InputError):
            return Tuner(problem, self.target, self.backend, database, self.settings, measure=measure, resume=True)
        files.state.unlink(missing_ok=True)
        return Tuner(problem, self.target, self.backend, database, self.settings, measure=measure)


def part_of(tuner: Tuner, tuned: Tuned) -> Part:
    """Return the figures of a run: times in seconds, the best after each batch, schedules, and the best schedule."""
    state = tuner.state
    return {
        "best": tuned.seconds,
        "baseline": tuned.baseline_seconds if math.isfinite(tuned.baseline_seconds) else None,
        "best_of_batches": [incumbent.seconds for incumbent in state.champions],
        "model_errors": list(tuned.errors),
        "measured": tuned.measured,
        "failures": dict(tuned.failures),
        "batches": state.iteration,
        "source": tuned.source,
        "schedule": state.incumbent.schedule if state.incumbent else "",
    }


def is_finished(part: Part | None, batches: int) -> bool:
    """Return whether an app has been tuned with all of its batches."""
    return part is not None and part.get("batches", 0) >= batches


def run(context: Context) -> Outcome:
    """Tune every app that has had no run yet; then continue the apps with batches left."""
    options = context.options
    target = target_of(options)
    size = SMALL if options.sizes == (SMALL,) else PAPER
    directory = options.out_path / TUNING_DIRECTORY
    directory.mkdir(parents=True, exist_ok=True)
    tuner = AppTuner(
        target, backend_of(context, target, lanes=1),
        TuneSettings(options.tune_iterations, options.tune_samples, weights=options.weights or None),
        str(directory), options.tune_seconds, max(1, options.processes // AT_A_TIME),
    )  # fmt: skip
    apps = [app for app in options.tune_apps if not options.apps or app in options.apps]
    fresh = [app for app in apps if app not in context.parts]
    begun = [
        app for app in apps if app in context.parts and not is_finished(context.parts[app], options.tune_iterations)
    ]
    todo = fresh or begun
    rounds = max(1, math.floor(context.remaining / (options.tune_seconds + _ENDING_S)))
    todo = todo[: rounds * AT_A_TIME] if context.remaining > _LEAST_S else []
    for name, part in do_parts(
        tuner, "tune", [(app, (app, problem_of(app, size).text())) for app in todo],
        processes=min(AT_A_TIME, options.processes), limit_s=float("inf"), deadline=context.deadline,
    ):  # fmt: skip
        context.record(name, {"error": part.message} if isinstance(part, Lost) else part)
    tuned = [context.parts[app] for app in apps if app in context.parts]
    failed = sum("error" in part for part in tuned)
    wrong = sum(part.get("failures", {}).get("wrong_result", 0) for part in tuned)
    measured = sum(part.get("measured", 0) for part in tuned)
    ended = sum(is_finished(part, options.tune_iterations) for part in tuned)
    message = f"{len(tuned)} of {len(apps)} apps tuned, {ended} with all batches, {measured} schedules, {failed} failed"
    return Outcome(len(tuned) == len(apps), message, failed + wrong)
