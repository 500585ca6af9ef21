"""Compare predicted with measured times of user pipelines and suite apps: factors and rank correlations.

    python scripts/bench_predictions.py FOLDER [--half worked|held-out|both] [--seed 2026] [--only NAME,...]
    python scripts/bench_predictions.py --apps harris,unsharp

Each pipeline has up to 24 schedules: the baseline, 8 of the default search, and 15 random legal ones (uniform, and of
the search space) within 10 times of the fastest. They are called as a user calls them (new outputs, the same inputs),
in turns. Times are medians; with
``OMP_NUM_THREADS=1`` they are processor times of the calling thread, which exclude other processes. A row each: the
factor by which the prediction of the default search's schedule is off (measured over predicted), and Spearman's rank
correlation of the 24 times. The correlation is left out where the times spread by less than 1.3.

FOLDER has a module ``common.py`` and files ``p*.py`` (`benchmarks.prediction_cases`). ``--seed`` draws the held-out
half. ``--weights`` predicts with a file of weights instead of the analytical model. ``--json`` writes times and
components of all schedules. ``--read`` prints the table of such a file with the present model's predictions.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from autosched.errors import ScheduleError
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.runtime.timing.interleaved import Rounds, RoundsRule, time_interleaved
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.rewrites import apply_rewrites
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.calibration.calibration_service import CalibrationService
from autosched.search.calibration.microbenchmarks import TINY
from autosched.search.calibration.processor_scale import ProcessorScale, fit_scale, usual_factor
from autosched.search.calibration.scale_cache import predicted_seconds
from autosched.search.cost.cpu.analytical import CpuModel
from autosched.search.cost.protocol import CostModel
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.search.tune.cost_models import cost_model
from autosched.target import Target, get_target
from benchmarks.prediction_cases import PredictionCase, app_case, cases_of, files_of, halves
from benchmarks.prediction_schedules import TimedCandidates, candidates

SEARCHED, RANDOM = 8, 15
"""Schedules of the search, and random ones, by default."""
LEAST_SPREAD = 1.3
"""Slowest over fastest time from which ranks mean something."""
MOST_OFF, LEAST_RANK = 2.0, 0.7
"""Bounds of good predictions: of the factor, and of Spearman's rank correlation."""


@dataclass
class SchedulePrediction:
    """A schedule with its predicted and measured time.

    Attributes:
        kind: ``roots``, ``search`` or ``random``.
        predicted_s: Predicted seconds of the pipeline; NaN if a kernel has no prediction.
        measured_s: Measured seconds of a call.
        parts: Predicted seconds of each component of the analytical model, over all kernels.
        schedule: The schedule as JSON.
    """

    kind: str
    predicted_s: float
    measured_s: float = math.nan
    parts: dict[str, float] = field(default_factory=dict)
    schedule: str = ""


@dataclass
class PredictionRow:
    """The schedules of one pipeline.

    Attributes:
        group: File or app that it comes from.
        name: Name in tables.
        schedules: The schedules; the first of kind ``search`` is the default search's result.
        calibration: Rounds of the microbenchmarks, timed after the pipeline.
    """

    group: str
    name: str
    schedules: list[SchedulePrediction]
    calibration: tuple[tuple[float, ...], ...] = ()

    @property
    def off(self) -> float:
        """Measured over predicted time of the schedule that the default search returns."""
        found = next((s for s in self.schedules if s.kind == "search"), self.schedules[0])
        return found.measured_s / found.predicted_s

    @property
    def off_by_schedule(self) -> float:
        """Measured over predicted time, geometric mean of all schedules."""
        return geometric_mean(s.measured_s / s.predicted_s for s in self.schedules if math.isfinite(s.predicted_s))

    @property
    def spread(self) -> float:
        """Slowest over fastest time."""
        times = [s.measured_s for s in self.schedules]
        return max(times) / min(times)

    @property
    def rank_correlation(self) -> float:
        """Spearman's rank correlation of predicted and measured times; NaN if these hardly differ."""
        known = [s for s in self.schedules if math.isfinite(s.predicted_s)]
        if self.spread < LEAST_SPREAD or len(known) < 3:
            return math.nan
        return float(spearmanr([s.predicted_s for s in known], [s.measured_s for s in known]).statistic)


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean of positive values; NaN without any."""
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def predicted(scheduled: ScheduledPipeline, model: CostModel) -> SchedulePrediction:
    """Return a schedule's predicted time, with its components where the model has them."""
    bound = apply_rewrites(scheduled.bound, scheduled.schedule)
    featurizer = Featurizer(bound, scheduled.target)
    seconds, parts = 0.0, dict[str, float]()
    for kernel in scheduled.schedule.kernels:
        try:
            if featurizer.model(describe_kernel(bound, kernel)[0]).overflow:
                return SchedulePrediction("", math.nan)
        except ScheduleError:  # a kernel with steps
            pass
        evaluation = evaluated(featurizer, kernel)
        own = evaluation.seconds(model)
        seconds += own
        if isinstance(model, CpuModel):
            batch = evaluation.batch_evaluation
            times = own / float(model.cost(batch)[0])
            for name, part in model.parts(batch).items():
                parts[name] = parts.get(name, 0.0) + float(part[0]) * times
    return SchedulePrediction("", seconds, parts=parts)


@dataclass(frozen=True)
class PredictionSettings:
    """Settings of a run.

    Attributes:
        target: The processor.
        model: The cost model.
        searched: Schedules of the search.
        drawn: Random schedules.
        seconds: Time limit of the timing of a pipeline, after three rounds.
        seed: Source of random schedules.
        least: Whether times are the least instead of medians.
    """

    target: Target
    model: CostModel
    searched: int = SEARCHED
    drawn: int = RANDOM
    seconds: float = 15.0
    seed: int = 0
    least: bool = False


def measure(case: PredictionCase, plan: PredictionSettings) -> PredictionRow:
    """Return the schedules of a pipeline with predicted and measured times."""
    timed = TimedCandidates(case, plan.target)
    chosen = candidates(timed, plan.searched, plan.drawn, plan.seed)
    samplers = [partial(timed.seconds, call) for _, _, call in chosen]
    rounds = time_interleaved(samplers, RoundsRule(3, 25, plan.seconds), time.perf_counter)
    rows = []
    for k, (kind, schedule, _) in enumerate(chosen):
        row = predicted(timed.scheduled(schedule), plan.model)
        column = [times[k] for times in rounds.seconds]
        row.kind, row.measured_s = kind, min(column) if plan.least else statistics.median(column)
        row.schedule = to_json(timed.bound, schedule)
        rows.append(row)
    calibration = CalibrationService().run(plan.target, RoundsRule(3, 5, 0.2), timed.clock).seconds
    if plan.least:
        calibration = (tuple(np.min(calibration, axis=0).tolist()),)
    return PredictionRow(case.group, case.name, rows, calibration)


def repredicted(row: PredictionRow, case: PredictionCase, target: Target, model: CostModel) -> PredictionRow:
    """Return earlier times with the predictions of a model."""
    timed = TimedCandidates(case, target)
    schedules = []
    for earlier in row.schedules:
        new = predicted(timed.scheduled(from_json(earlier.schedule, timed.bound)), model)
        schedules.append(replace(earlier, predicted_s=new.predicted_s, parts=new.parts))
    return replace(row, schedules=schedules)


def processor_scale(rows: Sequence[PredictionRow], target: Target, model: CostModel) -> ProcessorScale:
    """Return one scale for all pipelines, by the microbenchmarks that were timed with them, whatever its spread."""
    rounds = Rounds(tuple(tuple(r) for row in rows for r in row.calibration))
    predicted_s, usual = predicted_seconds(target, model), usual_factor(target)
    return fit_scale(predicted_s, rounds, TINY, most_spread=math.inf, usual=usual)


def scaled_row(row: PredictionRow, scale: ProcessorScale) -> PredictionRow:
    """Return the times with scaled predictions."""
    schedules = [replace(s, predicted_s=scale.seconds(s.predicted_s)) for s in row.schedules]
    return replace(row, schedules=schedules)


def report(rows: Sequence[PredictionRow], title: str) -> None:
    """Print the table of some pipelines and its summary."""
    if not rows:
        return
    print(f"\n{title}\n\n| pipeline | schedules | found ms | measured / predicted | of all | spread | Spearman |")
    print("|---|---|---|---|---|---|---|")
    for r in rows:
        found = next((s for s in r.schedules if s.kind == "search"), r.schedules[0])
        rank = f"{r.rank_correlation:.2f}" if math.isfinite(r.rank_correlation) else "-"
        print(f"| {r.name} | {len(r.schedules)} | {1e3 * found.measured_s:.3f} | {r.off:.2f} | {r.off_by_schedule:.2f} "
              f"| {r.spread:.2f} | {rank} |")  # fmt: skip
    factors = [max(r.off, 1 / r.off) for r in rows]
    ranks = [r.rank_correlation for r in rows if math.isfinite(r.rank_correlation)]
    inside = sum(f <= MOST_OFF for f in factors)
    print(
        f"\n{inside} of {len(rows)} within {MOST_OFF:g}, off by {geometric_mean(factors):.2f} in geometric mean, "
        f"measured over predicted {geometric_mean(r.off for r in rows):.2f}",
        flush=True,
    )
    if ranks:
        print(f"Spearman {np.mean(ranks):.2f} in mean, least {min(ranks):.2f}, at least {LEAST_RANK} for "
              f"{sum(r >= LEAST_RANK for r in ranks)} of {len(ranks)}", flush=True)  # fmt: skip


def _from_data(data: Sequence[Mapping[str, Any]]) -> list[PredictionRow]:
    return [
        PredictionRow(d["group"], d["name"], [SchedulePrediction(**s) for s in d["schedules"]], tuple(d["calibration"]))
        for d in data
    ]


def main() -> int:
    """Measure the pipelines of the command line and print both halves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="folder of user pipelines")
    parser.add_argument("--half", choices=("worked", "held-out", "both"), default="both")
    parser.add_argument("--seed", type=int, default=2026, help="draws the held-out half (default: %(default)s)")
    parser.add_argument("--only", help="names of files, separated by commas")
    parser.add_argument("--apps", default="", help="suite apps, separated by commas")
    parser.add_argument("--seconds", type=float, default=15, help="time limit of a pipeline's timing")
    parser.add_argument("--searched", type=int, default=SEARCHED, help="schedules of the search")
    parser.add_argument("--random", type=int, default=RANDOM, help="random schedules")
    parser.add_argument("--least", action="store_true", help="least times instead of medians, for a busy machine")
    parser.add_argument("--weights", help="file of weights, or learned; the analytical model when left out")
    parser.add_argument("--json", type=Path, help="file to write all times to")
    parser.add_argument("--read", type=Path, nargs="+", default=(), help="files of earlier times, to predict again")
    options = parser.parse_args()
    target = get_target("cpu")
    model = cost_model(options.weights or "analytical", target)
    plan = PredictionSettings(target, model, options.searched, options.random, options.seconds, least=options.least)
    earlier = {r.name: r for path in options.read for r in _from_data(json.loads(path.read_text()))}
    names = files_of(options.folder) if options.folder else []
    worked, held_out = halves(names, options.seed)
    groups = {"worked": worked, "held-out": held_out}
    wanted = None if options.only is None else options.only.split(",")

    def measured(case: PredictionCase, half: str) -> None:
        if earlier and case.name not in earlier:
            return
        row = repredicted(earlier[case.name], case, target, model) if earlier else measure(case, plan)
        done[half].append(row)
        print(f"{row.name}: {row.off:.2f}, {row.rank_correlation:.2f}", file=sys.stderr, flush=True)
        if options.json is not None:  # after each, as a run takes long
            options.json.write_text(json.dumps([asdict(r) for rows in done.values() for r in rows], indent=1))

    done: dict[str, list[PredictionRow]] = {"worked": [], "held-out": [], "apps": []}
    for half, stems in groups.items():
        if options.half not in (half, "both"):
            continue
        for stem in stems:
            if wanted is None or stem in wanted:
                for case in cases_of(options.folder, stem):
                    measured(case, half)
    for name in filter(None, options.apps.split(",")):
        measured(app_case(name), "apps")
    scale = processor_scale([row for rows in done.values() for row in rows], target, model)
    for half, rows in done.items():
        title = f"{half}: {model.name}, {target.multiprocessors} cores, load {os.getloadavg()[0]:.1f}"
        report(rows, f"{title}, not scaled")
        report([scaled_row(row, scale) for row in rows], f"{title}, {scale}, {1e6 * scale.call_s:.0f} us a call")
    return 0
