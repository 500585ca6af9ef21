"""Service of a worker process: times of the microbenchmarks, in turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from autosched.runtime.timing.interleaved import Rounds, RoundsRule, time_interleaved
from autosched.search.calibration.microbenchmarks import microbenchmarks
from autosched.settings import settings
from autosched.target import Target


class CalibrationService:
    """Compiles and times the microbenchmarks of a processor."""

    def run(self, target: Target, rule: RoundsRule, clock: Callable[[], float] = time.perf_counter) -> Rounds:
        """Return the seconds of calls into existing outputs, a column for each microbenchmark.

        Args:
            target: This machine's processor.
            rule: Stopping rule of the rounds.
            clock: Clock of the calls, in seconds; `time.thread_time`, for one core, excludes other processes.

        Raises:
            CompileError: If there is no C compiler.
            CacheError: If the cache directory cannot be written.
        """
        benchmarks = list(microbenchmarks(target))
        scheduled = [b.scheduled(target) for b in benchmarks]
        for s in scheduled:
            s.program  # noqa: B018 - lowered here: lowering in threads would only take turns
        with ThreadPoolExecutor(settings().compile_jobs) as pool:  # compilers are processes of their own
            kernels = list(pool.map(lambda s: s.compile("cpu"), scheduled))
        calls = [partial(k, b.inputs, out=k(b.inputs)) for k, b in zip(kernels, benchmarks, strict=True)]
        return time_interleaved([partial(_seconds, call, clock) for call in calls], rule, time.perf_counter)


def _seconds(call: Callable[[], object], clock: Callable[[], float]) -> float:
    started = clock()
    call()
    return clock() - started
