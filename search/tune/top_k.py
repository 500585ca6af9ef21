"""Top-k mode: the best schedules by the model are compiled and measured (Anderson, section 8: top-5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import MeasureError
from autosched.measure.backend import Backend
from autosched.measure.compare.interleaved_comparison import InterleavedComparison
from autosched.measure.compile.content_keys import schedule_text
from autosched.measure.job import Job, Result, Status
from autosched.measure.measurer import Measurer
from autosched.measure.problem import Problem
from autosched.measure.settings import MeasureSettings
from autosched.plural import counted
from autosched.runtime.timing.durations import format_time
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.io.strict_json import Node
from autosched.schedule.io.typed_json import read_as
from autosched.schedule.types import Schedule
from autosched.search.results import RankedSchedule, SearchResult
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.tune.final_selection import TimedSchedule, select_fastest
from autosched.target import Target

ROOTS = "roots"


@dataclass(frozen=True)
class Trial:
    """A schedule in a measurement.

    Attributes:
        schedule: The schedule.
        origin: ``roots`` for the baseline, else the part of the search that found it.
        predicted: Seconds by the model; NaN without a prediction.
        first_s: Seconds of the first measurement; NaN without one.
        again_s: Seconds of an interleaved timing with other schedules; None without one.
        kernel_seconds: Seconds of each kernel; they add up to `seconds`.
        problem: Reason for a missing time, or empty.
        ranked: The entry of the search, if it comes from one.
    """

    schedule: Schedule = field(repr=False)
    origin: str
    predicted: float
    first_s: float
    again_s: float | None = None
    kernel_seconds: tuple[float, ...] = ()
    problem: str = ""
    ranked: RankedSchedule | None = field(default=None, repr=False)

    @property
    def seconds(self) -> float:
        """Seconds of the last timing; NaN without one."""
        return self.first_s if self.again_s is None else self.again_s

    def __repr__(self) -> str:
        predicted = "" if math.isnan(self.predicted) else f", predicted {format_time(self.predicted)}"
        origin = f" {self.origin}" if self.origin else ""
        return f"<Trial{origin}: {self.problem or format_time(self.seconds)}{predicted}>"

    @property
    def note(self) -> str:
        """Note for users, or empty."""
        parts = ["baseline"] if self.origin == ROOTS else []
        parts += [] if self.again_s is None else ["timed again"]
        return ", ".join(parts)

    def timed_again(self, seconds: float) -> Trial:
        """Return the trial with the time of an interleaved timing; kernels keep their shares."""
        scale = seconds / self.first_s
        return replace(self, again_s=seconds, kernel_seconds=tuple(scale * s for s in self.kernel_seconds))


@dataclass(frozen=True)
class Trials:
    """Measured schedules.

    Attributes:
        source: Source of the times: ``measured:<device>`` or ``simulated:<target>``.
        trials: The chosen schedule, then the rest by their times, and those without a time.
        wrong: Number of schedules with a wrong result.
        note: Note for users on the choice, or empty.
    """

    source: str
    trials: tuple[Trial, ...]
    wrong: int = 0
    note: str = ""

    @property
    def best(self) -> Trial:
        """The chosen schedule."""
        return self.trials[0]

    def __repr__(self) -> str:
        wrong = f", {self.wrong} with a wrong result" if self.wrong else ""
        schedules = counted(len(self.trials), "schedule")
        return f"<Trials by {self.source}: {schedules}{wrong}, best {format_time(self.best.seconds)}>"

    def __str__(self) -> str:
        """Return predicted and measured times as a table."""
        rows = [("predicted", "measured", "again", "")]
        rows += [
            (
                "-" if math.isnan(t.predicted) else format_time(t.predicted),
                "-" if t.problem else format_time(t.first_s),
                "" if t.again_s is None else format_time(t.again_s),
                t.problem or t.origin,
            )
            for t in self.trials
        ]
        lines = [f"{a:>10} {b:>10} {c:>10}  {d}".rstrip() for a, b, c, d in rows]
        return "\n".join([*lines, f"({self.verdict})"])

    @property
    def verdict(self) -> str:
        """Source of the times and the choice, for users."""
        text = f"{self.source}; the first is taken"
        if any(t.seconds < self.best.seconds for t in self.trials):
            text += ": no other is significantly faster"
        return text

    def reordered(self, result: SearchResult) -> SearchResult:
        """Return a search result with its schedules in the order of their measured times."""
        by_trial = [t.ranked or RankedSchedule(t.schedule, t.predicted) for t in self.trials if not t.problem]
        rest = [r for r in result.ranked if all(r is not t.ranked for t in self.trials)]
        evaluator = by_trial[0].evaluator or result.evaluator
        return replace(result, ranked=tuple(by_trial + rest), evaluator=evaluator)

    def to_data(self, bound: BoundPipeline) -> dict[str, Any]:
        """Return data for `json`."""
        return {
            "source": self.source,
            "wrong": self.wrong,
            "note": self.note,
            "trials": [
                {
                    "schedule": to_json(bound, t.schedule),
                    "origin": t.origin,
                    "predicted": None if math.isnan(t.predicted) else t.predicted,
                    "first_s": None if math.isnan(t.first_s) else t.first_s,
                    "again_s": t.again_s,
                    "kernel_seconds": list(t.kernel_seconds),
                    "problem": t.problem,
                }
                for t in self.trials
            ],
        }

    @classmethod
    def from_data(cls, node: Node, bound: BoundPipeline) -> Trials:
        """Return the trials of parsed `to_data`.

        Raises:
            AutoschedError: If the data have another form, or a schedule does not fit the pipeline.
        """
        stored = read_as(node, _StoredTrials)
        if not stored.trials:
            raise node.error("has no trials: at least the chosen schedule is required")
        trials = tuple(
            Trial(
                from_json(t.schedule, bound),
                t.origin,
                math.nan if t.predicted is None else t.predicted,
                math.nan if t.first_s is None else t.first_s,
                t.again_s,
                t.kernel_seconds,
                t.problem,
            )
            for t in stored.trials
        )
        return cls(stored.source, trials, stored.wrong, stored.note)


@dataclass(frozen=True)
class _StoredTrial:
    """Serialised form of a `Trial`; None for a missing time."""

    schedule: str
    origin: str
    predicted: float | None
    first_s: float | None
    again_s: float | None
    kernel_seconds: tuple[float, ...]
    problem: str


@dataclass(frozen=True)
class _StoredTrials:
    """Serialised form of `Trials`."""

    source: str
    wrong: int
    note: str
    trials: tuple[_StoredTrial, ...]


def measure_ranked(
    problem: Problem,
    ranked: Sequence[RankedSchedule],
    target: Target,
    backend: Backend,
    *,
    settings: MeasureSettings | None = None,
    seed: int = 0,
    choose_baseline: bool = True,
) -> Trials:
    """Measure schedules and the baseline, and choose one.

    The model's first choice wins, unless another schedule is faster in an interleaved timing of both.

    Args:
        problem: The pipeline.
        ranked: Its schedules, the best by the model first.
        target: The device of the schedules.
        backend: Backend of the measurements.
        settings: Processes and time limits.
        seed: Seed of the inputs.
        choose_baseline: Whether the baseline may be chosen; otherwise it is timed for comparison alone.

    Raises:
        MeasureError: If no schedule has a time; the message has the first failure.
        InputError: As `Measurer.run`.
        CompileError: As `Measurer.run`.
    """
    bound = problem.bind()
    baseline = schedule_roots(bound, target)
    searched = [(r.schedule, "search", r.seconds, r) for r in ranked if r.schedule != baseline]
    jobs = [Job.of(problem, s, target, seed=seed, origin=o) for s, o, _, _ in searched]
    roots = Job.of(problem, baseline, target, seed=seed, origin=ROOTS)
    measurer = Measurer(backend, lambda _: roots, settings=settings)
    results = {r.job.schedule_hash: r for r in measurer.run([roots, *jobs])}
    of_roots = next((r for r in ranked if r.schedule == baseline), None)
    entries = [(baseline, ROOTS, math.nan if of_roots is None else of_roots.seconds, of_roots), *searched]
    trials = {
        job.schedule: _trial(entry, results.get(job.schedule_hash))
        for entry, job in zip(entries, [roots, *jobs], strict=True)
    }
    timed = {
        job.schedule: TimedSchedule(job, timing.seconds, timing.spread)
        for job in (roots, *jobs)
        if (result := results.get(job.schedule_hash)) and (timing := result.timing)
    }
    if not timed:
        raise MeasureError(f"no schedule of {problem.title} has a time: {next(iter(trials.values())).problem}")
    by_model = [t for r in ranked if (t := timed.get(schedule_text(bound, r.schedule)))]
    if not choose_baseline and not by_model:
        failed = next((t.problem for t in trials.values() if t.problem), "not measured")
        raise MeasureError(f"no schedule of {problem.title} that meets the guide has a time: {failed}")
    all_timed = list(timed.values()) if choose_baseline else by_model
    reference = [timed[roots.schedule]] if roots.schedule in timed else []
    with InterleavedComparison(backend, settings) as comparison:
        selection = select_fastest((by_model or all_timed)[0], [all_timed], comparison, reference)
    trials |= {text: trials[text].timed_again(seconds) for text, seconds in selection.again.items()}
    chosen = trials.pop(selection.chosen.job.schedule)
    others = sorted(trials.values(), key=lambda t: math.inf if t.problem else t.seconds)
    wrong = sum(r.status is Status.WRONG_RESULT for r in results.values())
    return Trials(backend.source, (chosen, *others), wrong, selection.note)


def _trial(entry: tuple[Schedule, str, float, RankedSchedule | None], result: Result | None) -> Trial:
    schedule, origin, predicted, ranked = entry
    if result is None or result.timing is None:
        problem = "not measured" if result is None else f"{result.status}: {result.error.splitlines()[0]}"
        return Trial(schedule, origin, predicted, math.nan, problem=problem, ranked=ranked)
    timing = result.timing
    return Trial(schedule, origin, predicted, timing.seconds, kernel_seconds=timing.kernel_seconds, ranked=ranked)
