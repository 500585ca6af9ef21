"""Wall-clock and device timing, also of a plain copy of the same bytes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from autosched.settings import available_cpus

BUDGET_S = 1.0
"""Time budget of one measurement, unless the fewest runs take longer."""
FEWEST_RUNS, MOST_RUNS = 3, 1000
_WARM_UP_RUNS = 3  # the second call with the same arrays captures a CUDA graph


@dataclass(frozen=True, slots=True)
class CommandTiming:
    """Times of a repeated call.

    Attributes:
        median_s: Median in seconds.
        fastest_s: Fastest in seconds.
        runs: Number of measured runs.
    """

    median_s: float
    fastest_s: float
    runs: int


def time_on_host(run: Callable[[], object]) -> CommandTiming:
    """Time a synchronous function, after one warm-up run."""
    return _repeat(run, lambda: _wall_clock(run))


def time_on_gpu(run: Callable[[], object]) -> CommandTiming:
    """Time a function that launches on CuPy's current stream, between CUDA events."""
    import cupy

    def once() -> float:
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        run()
        end.record()
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(begin, end)) / 1e3

    for _ in range(_WARM_UP_RUNS):
        run()
    return _repeat(run, once)


def time_copy_on_host(moved_bytes: int) -> CommandTiming:
    """Time a copy on all CPUs that reads and writes ``moved_bytes`` in total."""
    workers = available_cpus()
    source = np.ones(max(moved_bytes // 2, 1), np.uint8)
    target = np.zeros_like(source)
    parts = list(zip(np.array_split(target, workers), np.array_split(source, workers), strict=True))
    with ThreadPoolExecutor(workers) as pool:
        return time_on_host(lambda: list(pool.map(lambda part: np.copyto(*part), parts)))


def time_copy_on_gpu(moved_bytes: int) -> CommandTiming:
    """Time a copy on the current GPU that reads and writes ``moved_bytes`` in total."""
    import cupy

    source = cupy.ones(max(moved_bytes // 2, 1), cupy.uint8)
    target = cupy.empty_like(source)
    return time_on_gpu(lambda: cupy.copyto(target, source))


def _repeat(run: Callable[[], object], once: Callable[[], float]) -> CommandTiming:
    warm_up = _wall_clock(run)
    count = int(min(max(BUDGET_S / max(warm_up, 1e-9), FEWEST_RUNS), MOST_RUNS))
    times = [once() for _ in range(count)]
    return CommandTiming(statistics.median(times), min(times), count)


def _wall_clock(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
