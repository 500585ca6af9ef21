"""The best few schedules by the model, compiled and measured (Anderson, section 8: the mode called top-5)."""

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
    """A schedule that was to be measured.

    Attributes:
        schedule: The schedule.
        origin: ``roots`` for the baseline, else where the schedule comes from.
        predicted: Seconds by the model; NaN where it was not asked.
        first_s: Seconds that it was first measured with; NaN if it has no time.
        again_s: Seconds when it was timed once more, in turns with others; None if it was not.
        kernel_seconds: Seconds of each kernel; they add up to `seconds`.
        problem: Why it has no time, or empty.
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
        """Seconds that are known best; NaN if it has no time."""
        return self.first_s if self.again_s is None else self.again_s

    def __repr__(self) -> str:
        predicted = "" if math.isnan(self.predicted) else f", predicted {format_time(self.predicted)}"
        origin = f" {self.origin}" if self.origin else ""
        return f"<Trial{origin}: {self.problem or format_time(self.seconds)}{predicted}>"

    @property
    def note(self) -> str:
        """What to tell people of it."""
        parts = ["baseline"] if self.origin == ROOTS else []
        parts += [] if self.again_s is None else ["timed again"]
        return ", ".join(parts)

    def timed_again(self, seconds: float) -> Trial:
        """Return it with the time of a comparison; its kernels keep their shares."""
        scale = seconds / self.first_s
        return replace(self, again_s=seconds, kernel_seconds=tuple(scale * s for s in self.kernel_seconds))


@dataclass(frozen=True)
class Trials:
    """Measured schedules.

    Attributes:
        source: Where the times come from: ``measured:<device>`` or ``simulated:<target>``.
        trials: The one that was chosen, the others by their times, and those without one.
        wrong: How many computed a wrong result.
        note: What a user should know of how it was chosen, or empty.
    """

    source: str
    trials: tuple[Trial, ...]
    wrong: int = 0
    note: str = ""

    @property
    def best(self) -> Trial:
        """The one that was chosen."""
        return self.trials[0]

    def __repr__(self) -> str:
        wrong = f", {self.wrong} with a wrong result" if self.wrong else ""
        return f"<Trials by {self.source}: {len(self.trials)} schedules{wrong}, best {format_time(self.best.seconds)}>"

    def __str__(self) -> str:
        """Return predicted beside measured times as a table."""
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
        """Where the times come from, and which is taken, for people."""
        text = f"{self.source}; the first is taken"
        if any(t.seconds < self.best.seconds for t in self.trials):
            text += ": no other is faster beyond what chance explains"
        return text

    def reordered(self, found: SearchResult) -> SearchResult:
        """Return a search's result with its schedules in the order of their measured times."""
        by_trial = [t.ranked or RankedSchedule(t.schedule, t.predicted) for t in self.trials if not t.problem]
        rest = [r for r in found.ranked if all(r is not t.ranked for t in self.trials)]
        evaluator = by_trial[0].evaluator or found.evaluator
        return replace(found, ranked=tuple(by_trial + rest), evaluator=evaluator)

    def to_data(self, bound: BoundPipeline) -> dict[str, Any]:
        """Return them as data that `json` can write."""
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
        """Return the trials of data that `to_data` returned, as they were read.

        Raises:
            AutoschedError: If the data are something else, or a schedule is none of the pipeline.
        """
        kept = read_as(node, _KeptTrials)
        if not kept.trials:
            raise node.error("has no trials, of which the first was chosen")
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
            for t in kept.trials
        )
        return cls(kept.source, trials, kept.wrong, kept.note)


@dataclass(frozen=True)
class _KeptTrial:
    """A `Trial` as it is written; None where there is no time."""

    schedule: str
    origin: str
    predicted: float | None
    first_s: float | None
    again_s: float | None
    kernel_seconds: tuple[float, ...]
    problem: str


@dataclass(frozen=True)
class _KeptTrials:
    """`Trials` as they are written."""

    source: str
    wrong: int
    note: str
    trials: tuple[_KeptTrial, ...]


def measure_ranked(
    problem: Problem,
    ranked: Sequence[RankedSchedule],
    target: Target,
    backend: Backend,
    *,
    settings: MeasureSettings | None = None,
    seed: int = 0,
) -> Trials:
    """Measure schedules and the baseline beside them, and choose.

    What the model ranks first is taken, unless another one is really ahead of it when both are timed again in turns.

    Args:
        problem: The pipeline.
        ranked: Its schedules, the best by the model first.
        target: What they are for.
        backend: What measures them.
        settings: Processes and time limits.
        seed: Of the inputs.

    Raises:
        MeasureError: If no schedule has a time, naming the first failure.
        InputError: As `Measurer.run`.
        CompileError: As `Measurer.run`.
    """
    bound = problem.bind()
    baseline = schedule_roots(bound, target)
    wanted = [(r.schedule, "search", r.seconds, r) for r in ranked if r.schedule != baseline]
    jobs = [Job.of(problem, s, target, seed=seed, origin=o) for s, o, _, _ in wanted]
    roots = Job.of(problem, baseline, target, seed=seed, origin=ROOTS)
    measurer = Measurer(backend, lambda _: roots, settings=settings)
    results = {r.job.schedule_hash: r for r in measurer.run([roots, *jobs])}
    of_roots = next((r for r in ranked if r.schedule == baseline), None)
    entries = [(baseline, ROOTS, math.nan if of_roots is None else of_roots.seconds, of_roots), *wanted]
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
    everything = list(timed.values())
    beside = [timed[roots.schedule]] if roots.schedule in timed else []
    with InterleavedComparison(backend, settings) as comparer:
        verdict = select_fastest((by_model or everything)[0], [everything], comparer, beside)
    trials |= {text: trials[text].timed_again(seconds) for text, seconds in verdict.again.items()}
    chosen = trials.pop(verdict.chosen.job.schedule)
    others = sorted(trials.values(), key=lambda t: math.inf if t.problem else t.seconds)
    wrong = sum(r.status is Status.WRONG_RESULT for r in results.values())
    return Trials(backend.source, (chosen, *others), wrong, verdict.note)


def _trial(entry: tuple[Schedule, str, float, RankedSchedule | None], result: Result | None) -> Trial:
    schedule, origin, predicted, ranked = entry
    if result is None or result.timing is None:
        problem = "not measured" if result is None else f"{result.status}: {result.error.splitlines()[0]}"
        return Trial(schedule, origin, predicted, math.nan, problem=problem, ranked=ranked)
    timing = result.timing
    return Trial(schedule, origin, predicted, timing.seconds, kernel_seconds=timing.kernel_seconds, ranked=ranked)
