"""The best few schedules by the model, compiled and measured (Anderson, section 8: the mode called top-5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autosched.errors import MeasureError
from autosched.measure.backend import Backend
from autosched.measure.job import Job, Result, Status
from autosched.measure.measurer import Measurer
from autosched.measure.problem import Problem
from autosched.measure.settings import MeasureSettings
from autosched.schedule.types import Schedule
from autosched.search.roots import schedule_roots
from autosched.search.strategy import Found, Ranked
from autosched.target import Target

ROOTS = "roots"


@dataclass(frozen=True)
class Trial:
    """A schedule that was to be measured.

    Attributes:
        schedule: The schedule.
        origin: ``roots`` for the baseline, else where the schedule comes from.
        predicted: Seconds by the model; NaN where it was not asked.
        seconds: Measured seconds; NaN if it has no time.
        kernel_seconds: Seconds of each kernel within such a run.
        problem: Why it has no time, or empty.
        ranked: The entry of the search, if it comes from one.
    """

    schedule: Schedule
    origin: str
    predicted: float
    seconds: float
    kernel_seconds: tuple[float, ...] = ()
    problem: str = ""
    ranked: Ranked | None = None

    @property
    def note(self) -> str:
        """What to tell people of it."""
        return "baseline" if self.origin == ROOTS else ""


@dataclass(frozen=True)
class Trials:
    """Measured schedules.

    Attributes:
        source: Where the times come from: ``measured:<device>`` or ``simulated:<target>``.
        trials: All of them, the fastest first, those without a time last.
        wrong: How many computed a wrong result.
    """

    source: str
    trials: tuple[Trial, ...]
    wrong: int = 0

    @property
    def best(self) -> Trial:
        """The fastest."""
        return self.trials[0]

    def reordered(self, found: Found) -> Found:
        """Return a search's result with its schedules in the order of their measured times."""
        by_trial = [t.ranked or Ranked(t.schedule, t.predicted) for t in self.trials if not t.problem]
        rest = [r for r in found.ranked if all(r is not t.ranked for t in self.trials)]
        evaluator = by_trial[0].evaluator or found.evaluator
        return replace(found, ranked=tuple(by_trial + rest), evaluator=evaluator)


def measure_ranked(
    problem: Problem,
    ranked: Sequence[Ranked],
    target: Target,
    backend: Backend,
    *,
    settings: MeasureSettings | None = None,
    seed: int = 0,
) -> Trials:
    """Measure schedules and the baseline beside them.

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
    trials = [_trial(entry, results.get(job.schedule_hash)) for entry, job in zip(entries, [roots, *jobs], strict=True)]
    trials.sort(key=lambda t: math.inf if t.problem else t.seconds)
    if trials[0].problem:
        raise MeasureError(f"no schedule of {problem.title} has a time: {trials[0].problem}")
    wrong = sum(r.status is Status.WRONG_RESULT for r in results.values())
    return Trials(backend.source, tuple(trials), wrong)


def _trial(entry: tuple[Schedule, str, float, Ranked | None], result: Result | None) -> Trial:
    schedule, origin, predicted, ranked = entry
    if result is None or result.timing is None:
        problem = "not measured" if result is None else f"{result.status}: {result.error.splitlines()[0]}"
        return Trial(schedule, origin, predicted, math.nan, problem=problem, ranked=ranked)
    timing = result.timing
    return Trial(schedule, origin, predicted, timing.seconds, timing.kernel_seconds, ranked=ranked)
