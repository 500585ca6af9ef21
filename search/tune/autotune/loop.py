"""The tuning loop: search, measure, train on the measurements (Anderson, section 8: autotuning)."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path

from autosched.errors import AutoschedError, InputError, MeasureError
from autosched.measure.backend import Backend
from autosched.measure.compare.interleaved_comparison import InterleavedComparison
from autosched.measure.compile.content_keys import digest
from autosched.measure.job import Job, Result
from autosched.measure.measurer import Measurer
from autosched.measure.problem import Problem
from autosched.measure.settings import MeasureSettings
from autosched.measure.store.database import ResultsDatabase
from autosched.measure.workers.persistent_pool import PersistentPool
from autosched.model.predict.bundled_weights import find_weights
from autosched.model.predict.checkpoint import load_checkpoint
from autosched.model.train.fine_tuning import RANDOM, TunedWeights
from autosched.schedule.io.serialise import from_json, save_schedule
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.cost.protocol import CostModel
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.tune.arguments import check_seconds
from autosched.search.tune.autotune.batches import BatchSettings, baseline, draw_batch
from autosched.search.tune.autotune.candidate_classes import class_counts
from autosched.search.tune.autotune.counts_text import counts_text
from autosched.search.tune.autotune.incumbent import new_incumbent
from autosched.search.tune.autotune.report import Tuned, TuneReport
from autosched.search.tune.autotune.results import TuningResults
from autosched.search.tune.autotune.settings import TuneSettings
from autosched.search.tune.autotune.state import DrawnCandidate, TuningFiles, TuningState, with_batch, with_incumbent
from autosched.search.tune.final_selection import TimedSchedule
from autosched.search.tune.greedy_samples import samplers_of
from autosched.search.tune.top_k import ROOTS
from autosched.target import Target

logger = logging.getLogger(__name__)


class Tuner:
    """One tuning run, which can be resumed from its files.

    A run that is killed at any moment and resumed draws the same candidates and reaches the same weights as an
    uninterrupted one, provided that times are equal. No candidate is measured twice.

    Args:
        problem: The pipeline.
        target: The device to schedule for.
        backend: Backend of the measurements.
        database: File of the results; all other files are in the same directory.
        settings: Settings of the run.
        measure: Processes and time limits.
        resume: Whether to resume a run from existing files.
        report: Receives progress reports.

    Raises:
        InputError: If files of another run exist, or files of this run and it is not to be resumed; if weights cannot
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
        self.state = self._initial_state(resume, first)
        self._weights = TunedWeights(
            None if first is None else load_checkpoint(first, target), target, backend.source,
            self.settings.training, self.settings.seed,
        )  # fmt: skip
        self._results = TuningResults(problem, backend.source)
        self._pool = PersistentPool()
        self._comparison = InterleavedComparison(backend, self._measure_settings)
        self._error = math.nan
        self._batch_classes: dict[str, int] = {}
        self._measured_here = 0
        self._measuring_s = 0.0

    def run(self, seconds: float | None = None) -> Tuned:
        """Tune until all iterations are finished or the time budget ends.

        Args:
            seconds: Time budget of this call.

        Raises:
            MeasureError: If no schedule has a time.
            DatabaseError: If results cannot be read or stored.
            InputError: If a file cannot be written.
        """
        check_seconds(seconds)
        deadline = None if seconds is None else time.perf_counter() + seconds
        self.files.database.parent.mkdir(parents=True, exist_ok=True)
        with ResultsDatabase(self.files.database) as database, self._pool, self._comparison:
            self._results.load(database, self._backend, self._target.name)
            self._check_results()
            if self.state.iteration:
                self._weights.load(self.files.weights_of(self.state.iteration))
            cut_short = False
            while self.state.iteration < self.settings.iterations and not cut_short:
                cut_short = not self._iterate(database, deadline)
        self._weights.save(self.files.weights)
        return self._result(cut_short)

    def _iterate(self, database: ResultsDatabase, deadline: float | None) -> bool:
        """Run one iteration; return whether it finished before the deadline."""
        k = self.state.iteration
        if len(self.state.drawn) == k:
            self._report_progress("search")
            self._save(with_batch(self.state, tuple(self._draw(k, deadline))))
        batch = self.state.drawn[k]
        self._batch_classes = self._classes(batch)
        logger.info("batch %d of %s: %s", k + 1, self._problem.title, counts_text(self._batch_classes))
        self._measure(database, batch, deadline)
        self._compare(deadline)
        if _is_over(deadline):
            return False
        self._report_progress("train")
        self._error = self._results.model_error(batch)
        self._weights.train(self._results.samples(self._all_drawn), k)
        self._weights.save(self.files.weights_of(k + 1))
        error = self._error if math.isfinite(self._error) else None
        self._save(replace(self.state, iteration=k + 1, errors=(*self.state.errors, error)))
        self.files.weights_of(k).unlink(missing_ok=True)
        return not _is_over(deadline)

    def _draw(self, iteration: int, deadline: float | None) -> list[DrawnCandidate]:
        s = self.settings
        samplers = samplers_of(self._bound, self._target, self._model_of(iteration), s.search)
        drawn_before = {d.schedule for batch in self.state.drawn for d in batch}
        baseline_entry = [self._baseline] if iteration == 0 and not s.search.guide else []  # a guide may exclude it
        drawn_before.add(self._baseline.schedule)
        settings = BatchSettings(s.samples - len(baseline_entry), s.searches, s.mutations, s.seed)
        fastest = [text for _, text in self._results.fastest(self._all_drawn)]
        return baseline_entry + draw_batch(samplers, settings, iteration, drawn_before, fastest, deadline)

    def _model_of(self, iteration: int) -> CostModel:
        """Return the model that draws a batch; without initial weights, the first batch uses the analytical model."""
        is_untrained = iteration == 0 and self.settings.weights is None and self._first_weights() is None
        return analytical_model(self._target) if is_untrained else self._weights.model

    def _measure(self, database: ResultsDatabase, batch: tuple[DrawnCandidate, ...], deadline: float | None) -> None:
        again = self._measure_settings.again
        outcomes = self._results.of
        jobs = [self._job(d) for d in batch]
        todo = [j for j in jobs if j.schedule not in outcomes or outcomes[j.schedule].status in again]
        if not todo:
            return
        measurer = Measurer(
            self._backend, lambda _: self._roots, database, self._measure_settings, pool=self._pool.lend
        )
        best = self._best_saved()
        started = time.perf_counter()
        for result in measurer.run(todo, seconds=None if deadline is None else max(deadline - started, 0.0)):
            self._results.add(result)
            self._measured_here += 1
            best = self._save_if_better(result, best)
            rate = self._measured_here / (self._measuring_s + time.perf_counter() - started)
            self._report_progress("measure", rate)
        self._measuring_s += time.perf_counter() - started

    def _job(self, drawn: DrawnCandidate) -> Job:
        return Job(self._problem, drawn.schedule, self._target, origin=drawn.origin)

    def _best_saved(self) -> float:
        """Return the time of the saved schedule; infinite if there is none."""
        incumbent = self.state.incumbent
        return self._best()[0] if incumbent is None else incumbent.seconds

    def _save_if_better(self, result: Result, best: float) -> float:
        """Save a schedule that is faster than the saved one; beyond noise, once that was compared."""
        if result.timing is None:
            return best
        timed = TimedSchedule(result.job, result.timing.seconds, result.timing.spread)
        is_compared = self.state.incumbent is not None and self._comparison.is_needed
        if (timed.bounds[1] if is_compared else timed.seconds) >= best:
            return best
        save_schedule(self.files.schedule, self._bound, result.job.read_schedule())
        return timed.seconds

    def _compare(self, deadline: float | None) -> None:
        """Compare the best candidates of the batch with the incumbent, and save the faster one."""
        self._report_progress("compare")
        incumbent = new_incumbent(self.state, self._results, self._job, self._comparison, deadline)
        if incumbent is not None:
            self._save(with_incumbent(self.state, incumbent))
            save_schedule(self.files.schedule, self._bound, from_json(incumbent.schedule, self._bound))

    def _classes(self, batch: Iterable[DrawnCandidate]) -> dict[str, int]:
        """Return the number of candidates of each class."""
        return class_counts(self._bound, (d.schedule for d in batch))

    @property
    def _all_drawn(self) -> list[DrawnCandidate]:
        return [d for batch in self.state.drawn for d in batch]

    def _best(self) -> tuple[float, str]:
        return self._results.best(self._all_drawn)

    def _result(self, cut_short: bool) -> Tuned:
        drawn, incumbent = self._all_drawn, self.state.incumbent
        if incumbent is None:
            reason = self._results.first_error(drawn) or "give it more time"
            raise MeasureError(f"no schedule of {self._problem.title} has a time: {reason}")
        trials = self._results.trials(drawn, self.state.champions)
        return Tuned(
            trials.best.schedule,
            incumbent.seconds,
            *self._predicted(incumbent.schedule),
            next((t.seconds for t in trials.trials if t.origin == ROOTS), math.nan),
            self._backend.source,
            self.files,
            sum(d.schedule in self._results.of for d in drawn),
            self._results.failures(drawn),
            self.state.errors,
            cut_short,
            trials,
            tuple(map(self._classes, self.state.drawn)),
        )

    def _predicted(self, schedule: str) -> tuple[float | None, str]:
        """Return the predicted seconds of a candidate when it was drawn, and the name of the model."""
        number, drawn = next((k, d) for k, b in enumerate(self.state.drawn) for d in b if d.schedule == schedule)
        return drawn.predicted, "" if drawn.predicted is None else self._model_of(number).name

    def _first_weights(self) -> Path | None:
        """Return the file of initial weights, or None for new ones."""
        if self.settings.weights == RANDOM:
            return None
        weights = self.settings.weights
        return find_weights(self._target) if weights is None else Path(weights)

    def _initial_state(self, resume: bool, first: Path | None) -> TuningState:
        weights = RANDOM if first is None else digest(first.read_bytes().hex())
        settings = {k: v for k, v in asdict(self.settings).items() if k not in ("iterations", "weights")}
        fingerprint = digest(
            self._problem.text(), repr(self._target), self._backend.source, self._backend.generator, weights,
            repr(settings),
        )  # fmt: skip
        stored = self.files.load()
        if stored is None:
            return TuningState(fingerprint)
        if stored.fingerprint != fingerprint:
            raise InputError(
                f"{self.files.state} is of a tuning run with another pipeline, shapes, target, weights, settings or "
                "version: choose another database, or delete that file to start again with the results in the database"
            )
        if not resume:
            raise InputError(
                f"{self.files.state} is of a run that has finished {stored.iteration} iterations: resume it, or choose "
                "another database"
            )
        self._check_drawn(stored)
        return stored

    def _check_drawn(self, state: TuningState) -> None:
        """Refuse a state with texts that are no schedules of the pipeline."""
        for k, batch in enumerate(state.drawn):
            for n, drawn in enumerate(batch):
                try:
                    from_json(drawn.schedule, self._bound, "the schedule")
                except AutoschedError as error:
                    raise InputError(
                        f"{self.files.state}: drawn[{k}][{n}] cannot be used ({error}): delete the file to start "
                        "again, with the results in the database"
                    ) from error

    def _check_results(self) -> None:
        """Refuse a database without the times of the state's incumbents."""
        for incumbent in self.state.champions:
            outcome = self._results.of.get(incumbent.schedule)
            if outcome is None or outcome.seconds is None:
                raise InputError(
                    f"{self.files.database} has no time of a schedule that was the fastest by {self.files.state}: "
                    "restore a copy of the database, or delete the state to start again"
                )

    def _save(self, state: TuningState) -> None:
        self.files.save(state)
        self.state = state

    def _report_progress(self, activity: str, rate: float = math.nan) -> None:
        if self._report is None:
            return
        drawn, n = self._all_drawn, self.settings.iterations
        done = sum(d.schedule in self._results.of for d in drawn)
        number = min(self.state.iteration + 1, n)
        classes = {} if activity == "search" else self._batch_classes
        best = self._best()[0]
        self._report(TuneReport(number, n, done, len(drawn), best, rate, self._error, activity, classes))


def _is_over(deadline: float | None) -> bool:
    return deadline is not None and time.perf_counter() > deadline
