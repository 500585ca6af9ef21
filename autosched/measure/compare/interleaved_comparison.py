"""Interleaved timing of close candidates in one process, for the final choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from autosched.errors import MeasureError
from autosched.measure.backend import SIMULATED_SOURCE, Backend
from autosched.measure.job import Failure, Job
from autosched.measure.settings import MeasureSettings
from autosched.measure.workers.process import WorkerDied, WorkerProcess, WorkerTimedOut
from autosched.measure.workers.service import InterleavedService
from autosched.runtime.timing.interleaved import Rounds, RoundsRule


class InterleavedComparison:
    """Times candidates interleaved, in a worker process that is started on demand and reused.

    Args:
        backend: The device; the first of several.
        settings: Time limits of compiling and timing one candidate.
        rule: Stopping rule of the rounds.
    """

    def __init__(
        self, backend: Backend, settings: MeasureSettings | None = None, rule: RoundsRule | None = None
    ) -> None:
        self._device = backend.device_backends()[0]
        self.rule = rule or RoundsRule()
        self.is_needed = not backend.source.startswith(SIMULATED_SOURCE)  # simulated times do not vary
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
        """Return the times of candidates of one problem, whose results were checked before.

        Args:
            jobs: The candidates, which are the columns of the result.
            rule: Stopping rule; the default of this object when left out.

        Raises:
            MeasureError: If the process failed; the next call starts a new one.
        """
        rule, limits = rule or self.rule, self._settings
        limit = limits.trust_limit_s + rule.most_seconds
        limit += len(jobs) * (limits.compile_timeout_s + limits.time_limit_s)
        worker = self._worker = self._worker or WorkerProcess(
            InterleavedService(self._device), self._device.environment
        )
        try:
            outcome: Rounds | Failure = worker.call("run", list(jobs), rule, timeout_s=limit)
        except (WorkerDied, WorkerTimedOut) as error:
            raise MeasureError(f"interleaved timing failed: {error}") from error
        if isinstance(outcome, Failure):
            worker.kill()  # a lost device stays lost to its process
            raise MeasureError(f"interleaved timing failed ({outcome.status}): {outcome.message}")
        return outcome
