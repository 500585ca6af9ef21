"""Wall-clock and device timing, and the bandwidth that no pipeline can beat."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from autosched.settings import available_cpus

BUDGET_S = 1.0
"""Measured time of one subject, unless the fewest runs take longer."""
FEWEST_RUNS, MOST_RUNS = 3, 1000
_WARM_UP_RUNS = 3  # the second call with the same arrays captures a CUDA graph
_COPY_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of a repeated call.

    Attributes:
        median_s: Median in seconds.
        fastest_s: Fastest in seconds.
        runs: How many were measured.
    """

    median_s: float
    fastest_s: float
    runs: int


def time_on_host(run: Callable[[], object]) -> Timing:
    """Time a function that is done when it returns; one run before does not count."""
    return _repeat(run, lambda: _wall_clock(run))


def time_on_gpu(run: Callable[[], object]) -> Timing:
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


def copy_bandwidth_of_host() -> float:
    """Return the bytes per second, read plus written, of copying a large array with every CPU."""
    workers = available_cpus()
    source = np.ones(_COPY_BYTES // 8, np.int64)
    target = np.zeros_like(source)
    parts = list(zip(np.array_split(target, workers), np.array_split(source, workers), strict=True))
    with ThreadPoolExecutor(workers) as pool:
        timing = time_on_host(lambda: list(pool.map(lambda part: np.copyto(*part), parts)))
    return 2 * source.nbytes / timing.median_s


def copy_bandwidth_of_gpu() -> float:
    """Return the bytes per second, read plus written, of copying a large array on the current GPU."""
    import cupy

    source = cupy.ones(4 * _COPY_BYTES, cupy.uint8)
    target = cupy.empty_like(source)
    return 2 * float(source.nbytes) / time_on_gpu(lambda: cupy.copyto(target, source)).median_s


def _repeat(run: Callable[[], object], once: Callable[[], float]) -> Timing:
    warm_up = _wall_clock(run)
    count = int(min(max(BUDGET_S / max(warm_up, 1e-9), FEWEST_RUNS), MOST_RUNS))
    times = [once() for _ in range(count)]
    return Timing(statistics.median(times), min(times), count)


def _wall_clock(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
