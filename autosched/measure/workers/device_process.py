"""The measuring process of one device, which is replaced after a crash."""

from __future__ import annotations

from autosched.measure.backend import Backend
from autosched.measure.job import Failure, Prepared, Status, Timing
from autosched.measure.problem import Problem
from autosched.measure.settings import MeasureSettings
from autosched.measure.workers.process import WorkerDied, WorkerProcess, WorkerTimedOut
from autosched.measure.workers.service import MeasureService

_TRIES = 2


class DeviceProcess:
    """Times candidates sequentially in a worker process.

    Args:
        backend: The device.
        settings: Time limits.

    Attributes:
        worker: The process.
    """

    def __init__(self, backend: Backend, settings: MeasureSettings) -> None:
        self.worker = WorkerProcess(MeasureService(backend), backend.environment)
        self._settings = settings
        self._trusted: tuple[int, Problem] | None = None
        self._failed: dict[Problem, Failure] = {}
        self._start = 0
        self._timed = 0

    def trust(self, baseline: Prepared) -> Failure | None:
        """Establish the trusted result of a problem in the process, and in every new process.

        Returns:
            The failure if there is no trusted result, which is the same for the rest of the run.
        """
        problem = baseline.job.problem
        if problem in self._failed:
            return self._failed[problem]
        if self._trusted == (self.worker.starts, problem) and self._is_running:
            return None
        failure = self._call("trust", baseline, self._settings.trust_limit_s)
        if isinstance(failure, Failure):
            self._failed[problem] = failure
            return failure
        self._trusted = self.worker.starts, problem
        return None

    def time(self, prepared: Prepared, baseline: Prepared) -> Timing | Failure:
        """Check a candidate's result and time it.

        Args:
            prepared: The candidate.
            baseline: The candidate with the trusted result; may be the candidate itself.
        """
        if self._timed >= self._settings.lifetime:
            self.worker.kill()
        failure = self.trust(baseline)
        if failure is not None:
            return failure if prepared.job == baseline.job else _without_reference(failure)
        outcome = self._call("time", prepared, self._settings.time_limit_s, baseline)
        assert isinstance(outcome, Timing | Failure)
        return outcome

    @property
    def _is_running(self) -> bool:
        return self.worker.pid is not None

    def _call(
        self, method: str, prepared: Prepared, limit_s: float, baseline: Prepared | None = None
    ) -> Timing | Failure | None:
        """Call a method of the process; retry in a new one after a crash that may be an earlier candidate's."""
        for attempt in range(_TRIES):
            if baseline is not None and attempt and (failure := self.trust(baseline)) is not None:
                return _without_reference(failure)
            was_fresh = self._timed == 0 or not self._is_running
            try:
                outcome: Timing | Failure | None = self.worker.call(method, prepared, timeout_s=limit_s)
            except WorkerTimedOut:
                outcome = Failure(Status.TIMEOUT, f"it did not end in {limit_s:g} s and was killed")
            except WorkerDied as error:
                outcome = Failure(Status.CRASH, str(error))
            self._count_one()
            if not isinstance(outcome, Failure) or outcome.status is not Status.CRASH:
                return outcome
            self.worker.kill()  # a lost device stays lost to its process
            if was_fresh:
                return outcome
        return outcome

    def _count_one(self) -> None:
        if self._start != self.worker.starts:
            self._start, self._timed = self.worker.starts, 0
        self._timed += 1


def _without_reference(failure: Failure) -> Failure:
    """Return the failure of a candidate whose baseline failed."""
    return Failure(Status.NO_REFERENCE, f"the baseline failed ({failure.status}): {failure.message}")
