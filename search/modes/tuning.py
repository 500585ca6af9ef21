"""Tuning: search, measure, train on what was measured, and again (Anderson, section 8: autotuning)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from autosched.errors import InputError, MeasureError
from autosched.measure.backend import Backend
from autosched.measure.database import ResultsDatabase
from autosched.measure.job import Job
from autosched.measure.kept_pool import KeptPool
from autosched.measure.keys import digest
from autosched.measure.measurer import Measurer
from autosched.measure.problem import Problem
from autosched.measure.settings import MeasureSettings
from autosched.model.checkpoint import load_checkpoint
from autosched.model.shipped import find_weights
from autosched.model.tuning import RANDOM, TunedWeights, TuningSettings
from autosched.schedule.serialise import from_json, save_schedule
from autosched.schedule.types import Schedule
from autosched.search.modes.batches import BatchSettings, baseline, draw_batch
from autosched.search.modes.samples import SAMPLES, samplers_of
from autosched.search.modes.tuning_results import TuningResults
from autosched.search.modes.tuning_state import Drawn, TuningFiles, TuningState, with_batch
from autosched.search.roots import schedule_roots
from autosched.search.settings import SearchSettings
from autosched.target import Target


@dataclass(frozen=True)
class TuneSettings:
    """What a tuning run does.

    Attributes:
        iterations: Batches.
        samples: Candidates of a batch.
        searches: Searches of the first batch, of which the best and some others are measured; as in one-shot mode.
        mutations: Share of a batch that are changes of the fastest schedules so far; 0 as in the paper.
        weights: A file of weights to begin with; None for those that come with the package, or new ones if there are
            none; ``random`` for new ones.
        seed: Source of randomness.
        search: Settings of the one beam search of a batch.
        training: How weights are trained between batches.
    """

    iterations: int = 20
    samples: int = 80
    searches: int = SAMPLES
    mutations: float = 0.25
    weights: str | None = None
    seed: int = 0
    search: SearchSettings = field(default_factory=SearchSettings)
    training: TuningSettings = field(default_factory=TuningSettings)

    def __post_init__(self) -> None:
        if self.iterations < 1 or self.samples < 2:
            raise InputError(
                f"iterations is {self.iterations} and samples {self.samples}: give at least 1 iteration and 2 samples"
            )
        if not 0 <= self.mutations < 1:
            raise InputError(f"mutations is {self.mutations}: give a share of at least 0, below 1")


@dataclass(frozen=True)
class TuneReport:
    """How a run goes.

    Attributes:
        iteration: The batch under way, from 1.
        iterations: Batches in all.
        measured: Candidates of all batches that have a result.
        total: Candidates drawn so far.
        best: Seconds of the fastest so far, infinite before there is one.
        rate: Candidates measured in a second by this process.
        error: Mean factor by which the model was off in the last finished batch; NaN before.
        activity: ``search``, ``measure`` or ``train``.
    """

    iteration: int
    iterations: int
    measured: int
    total: int
    best: float
    rate: float
    error: float
    activity: str


@dataclass(frozen=True)
class Tuned:
    """The result of a tuning run.

    Attributes:
        schedule: The fastest.
        seconds: Its time.
        predicted: What the model said when it was drawn; None for the baseline.
        baseline_seconds: Time of the baseline schedule; NaN if it has none.
        source: Where times come from.
        files: Where everything is kept.
        measured: Candidates with a result, all runs together.
        failures: How many have no time, by what happened.
        errors: Mean factor by which the model was off in each batch, before it was trained on it.
        cut_short: Whether the time budget ended it early.
    """

    schedule: Schedule
    seconds: float
    predicted: float | None
    baseline_seconds: float
    source: str
    files: TuningFiles
    measured: int
    failures: Mapping[str, int]
    errors: tuple[float | None, ...]
    cut_short: bool


class Tuner:
    """One tuning run; started again with the same files, it goes on where it was.

    Killed at any moment and started again, it draws the same candidates and comes to the same weights as a run that
    was never disturbed, as far as times are the same; nothing is measured twice.

    Args:
        problem: The pipeline.
        target: What to schedule for.
        backend: What measures.
        database: The file of results; other files are beside it.
        settings: What to do.
        measure: Processes and time limits.
        resume: Whether to go on with a run whose files are there.
        report: Told how it goes.

    Raises:
        InputError: If files of another run are there, or of this one and it is not to be resumed; if weights cannot
            be used.
    """

    def __init__(
        self,
        problem: Problem,
        target: Target,
        backend: Backend,
        database: Path,
        settings: TuneSettings | None = None,
        *,
        measure: MeasureSettings | None = None,
        resume: bool = False,
        report: Callable[[TuneReport], None] | None = None,
    ) -> None:
        self.settings = settings or TuneSettings()
        self.files = TuningFiles(database)
        self._problem = problem
        self._bound = problem.bind()
        self._target = target
        self._backend = backend
        self._measure_settings = measure or MeasureSettings()
        self._report = report
        roots = schedule_roots(self._bound, target)
        self._roots = Job.of(problem, roots, target, origin="roots")
        self._baseline = baseline(self._bound, roots)
        first = self._first_weights()
        self.state = self._begun(resume, first)
        self._weights = TunedWeights(
            None if first is None else load_checkpoint(first, target), target, backend.source,
            self.settings.training, self.settings.seed,
        )  # fmt: skip
        self._results = TuningResults(problem, backend.source)
        self._pool = KeptPool()
        self._error = math.nan
        self._new = 0
        self._measuring_s = 0.0

    @property
    def model_name(self) -> str:
        """Name of the cost model with its present weights."""
        return self._weights.model.name

    def run(self, seconds: float | None = None) -> Tuned:
        """Tune until all iterations are done or the time is over.

        Args:
            seconds: Time budget of this call.

        Raises:
            MeasureError: If no schedule has a time.
            DatabaseError: If results cannot be read or stored.
            InputError: If a file cannot be written.
        """
        deadline = None if seconds is None else time.perf_counter() + seconds
        self.files.database.parent.mkdir(parents=True, exist_ok=True)
        with ResultsDatabase(self.files.database) as database, self._pool:
            self._results.load(database, self._backend, self._target.name)
            if self.state.iteration:
                self._weights.load(self.files.weights_of(self.state.iteration))
            cut_short = False
            while self.state.iteration < self.settings.iterations and not cut_short:
                cut_short = not self._iterate(database, deadline)
        self._weights.save(self.files.weights)
        return self._tuned(cut_short)

    def _iterate(self, database: ResultsDatabase, deadline: float | None) -> bool:
        """Do one iteration; returns whether it was finished before the deadline."""
        k = self.state.iteration
        if len(self.state.drawn) == k:
            self._tell("search")
            self._save(with_batch(self.state, tuple(self._drawn(k, deadline))))
        batch = self.state.drawn[k]
        self._measure(database, batch, deadline)
        if _is_over(deadline):
            return False
        self._tell("train")
        self._error = self._results.model_error(batch)
        self._weights.train(self._results.samples(self._all_drawn), k)
        self._weights.save(self.files.weights_of(k + 1))
        error = self._error if math.isfinite(self._error) else None
        self._save(replace(self.state, iteration=k + 1, errors=(*self.state.errors, error)))
        self.files.weights_of(k).unlink(missing_ok=True)
        return not _is_over(deadline)

    def _drawn(self, iteration: int, deadline: float | None) -> list[Drawn]:
        s = self.settings
        samplers = samplers_of(self._bound, self._target, self._weights.model, s.search)
        known = {d.schedule for batch in self.state.drawn for d in batch}
        found = [self._baseline] if iteration == 0 else []
        known.add(self._baseline.schedule)
        settings = BatchSettings(s.samples - len(found), s.searches, s.mutations, s.seed)
        fastest = [text for _, text in self._results.fastest(self._all_drawn)]
        return found + draw_batch(samplers, settings, iteration, known, fastest, deadline)

    def _measure(self, database: ResultsDatabase, batch: tuple[Drawn, ...], deadline: float | None) -> None:
        again = self._measure_settings.again
        known = self._results.of
        jobs = [Job(self._problem, d.schedule, self._target, origin=d.origin) for d in batch]
        todo = [j for j in jobs if j.schedule not in known or known[j.schedule].status in again]
        if not todo:
            return
        measurer = Measurer(
            self._backend, lambda _: self._roots, database, self._measure_settings, pool=self._pool.lend
        )
        best, _ = self._best()
        started = time.perf_counter()
        for result in measurer.run(todo, seconds=None if deadline is None else max(deadline - started, 0.0)):
            self._results.take(result)
            self._new += 1
            seconds, text = self._best()
            if seconds < best:
                best = seconds
                save_schedule(self.files.schedule, self._bound, from_json(text, self._bound))
            self._tell("measure", self._new / (self._measuring_s + time.perf_counter() - started))
        self._measuring_s += time.perf_counter() - started

    @property
    def _all_drawn(self) -> list[Drawn]:
        return [d for batch in self.state.drawn for d in batch]

    def _best(self) -> tuple[float, str]:
        return self._results.best(self._all_drawn)

    def _tuned(self, cut_short: bool) -> Tuned:
        drawn = self._all_drawn
        seconds, text = self._best()
        if not text:
            said = self._results.first_error(drawn) or "give it more time"
            raise MeasureError(f"no schedule of {self._problem.title} has a time: {said}")
        schedule = from_json(text, self._bound)
        save_schedule(self.files.schedule, self._bound, schedule)
        roots = self._results.of.get(self._baseline.schedule)
        return Tuned(
            schedule,
            seconds,
            next((d.predicted for d in drawn if d.schedule == text), None),
            math.nan if roots is None or roots.seconds is None else roots.seconds,
            self._backend.source,
            self.files,
            sum(d.schedule in self._results.of for d in drawn),
            self._results.failures(drawn),
            self.state.errors,
            cut_short,
        )

    def _first_weights(self) -> Path | None:
        """Return the file of the weights to begin with, or None for new ones."""
        if self.settings.weights == RANDOM:
            return None
        chosen = self.settings.weights
        return find_weights(self._target.name) if chosen is None else Path(chosen)

    def _begun(self, resume: bool, first: Path | None) -> TuningState:
        weights = RANDOM if first is None else digest(first.read_bytes().hex())
        settings = {k: v for k, v in asdict(self.settings).items() if k not in ("iterations", "weights")}
        fingerprint = digest(
            self._problem.text(), repr(self._target), self._backend.source, self._backend.generator, weights,
            repr(settings),
        )  # fmt: skip
        found = self.files.load()
        if found is None:
            return TuningState(fingerprint)
        if found.fingerprint != fingerprint:
            raise InputError(
                f"{self.files.state} is of a tuning run with another pipeline, shapes, target, weights, settings or "
                "version: choose another database, or delete that file to start again with the results that are there"
            )
        if not resume:
            raise InputError(
                f"{self.files.state} is of a run that has done {found.iteration} iterations: ask to resume it, or "
                "choose another database"
            )
        return found

    def _save(self, state: TuningState) -> None:
        self.files.save(state)
        self.state = state

    def _tell(self, activity: str, rate: float = math.nan) -> None:
        if self._report is None:
            return
        drawn, n = self._all_drawn, self.settings.iterations
        done = sum(d.schedule in self._results.of for d in drawn)
        number = min(self.state.iteration + 1, n)
        self._report(TuneReport(number, n, done, len(drawn), self._best()[0], rate, self._error, activity))


def _is_over(deadline: float | None) -> bool:
    return deadline is not None and time.perf_counter() > deadline
