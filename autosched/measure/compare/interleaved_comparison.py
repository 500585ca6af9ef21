"""Candidates timed once more, in turns in one process: what a choice between close ones is made by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from autosched.errors import MeasureError
from autosched.measure.backend import SIMULATED_SOURCE, Backend
from autosched.measure.job import Failure, Job
from autosched.measure.settings import MeasureSettings
from autosched.measure.workers.process import WorkerDied, WorkerProcess, WorkerTimedOut
from autosched.measure.workers.service import TurnsService
from autosched.runtime.timing.interleaved import Rounds, RoundsRule


class InterleavedComparison:
    """Times candidates in turns, in a process that may fail; it is started when first needed and kept.

    Args:
        backend: What measures; of several devices, the first.
        settings: Time limits: what compiling one candidate may take, and timing it.
        rule: How long they are timed.
    """

    def __init__(
        self, backend: Backend, settings: MeasureSettings | None = None, rule: RoundsRule | None = None
    ) -> None:
        self._bench = backend.benches()[0]
        self.rule = rule or RoundsRule()
        self.is_needed = not backend.source.startswith(SIMULATED_SOURCE)  # there times are the same each time
        self._settings = settings or MeasureSettings()
        self._worker: WorkerProcess | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process; the next comparison starts another one."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def compare(self, jobs: Sequence[Job], rule: RoundsRule | None = None) -> Rounds:
        """Return the times of candidates of one problem that were measured before, and found right.

        Args:
            jobs: The candidates; a column of the result for each.
            rule: How long, if not as usual.

        Raises:
            MeasureError: If the process failed; the next call starts another one.
        """
        rule, limits = rule or self.rule, self._settings
        limit = limits.trust_limit_s + rule.most_seconds
        limit += len(jobs) * (limits.compile_timeout_s + limits.time_limit_s)
        worker = self._worker = self._worker or WorkerProcess(TurnsService(self._bench), self._bench.environment)
        try:
            found: Rounds | Failure = worker.call("run", list(jobs), rule, timeout_s=limit)
        except (WorkerDied, WorkerTimedOut) as error:
            raise MeasureError(f"candidates could not be timed in turns: {error}") from error
        if isinstance(found, Failure):
            worker.kill()  # a device that is lost stays lost for its process
            raise MeasureError(f"candidates could not be timed in turns ({found.status}): {found.message}")
        return found
