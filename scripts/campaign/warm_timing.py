"""Warm-cache times of repeated calls: by events on a GPU, by the host's clock elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

Call = Callable[[], Any]

SAMPLES = 15
SAMPLE_S = 0.01
"""Duration of a sample, which sets its number of calls."""
WARM_S = 0.1
"""Duration of warm-up calls, so that the device reaches its clock rate."""


class Clock(Protocol):
    """Times batches of calls."""

    def seconds(self, call: Call, calls: int) -> float:
        """Return the mean seconds of one call over several."""


class HostClock:
    """The host's clock; for a GPU it includes launch overhead, as synchronisation follows only the last call.

    Args:
        wait: Waits for the completion of all calls.
    """

    def __init__(self, wait: Call = lambda: None) -> None:
        self._wait = wait

    def seconds(self, call: Call, calls: int) -> float:
        """Return the time of one call; see `Clock.seconds`."""
        self._wait()
        started = time.perf_counter()
        for _ in range(calls):
            call()
        self._wait()
        return (time.perf_counter() - started) / calls


class EventClock:
    """The current GPU's clock, on CuPy's current stream."""

    def __init__(self) -> None:
        import cupy

        self._cupy = cupy
        self._start, self._end = cupy.cuda.Event(), cupy.cuda.Event()

    def seconds(self, call: Call, calls: int) -> float:
        """Return the time of one call; see `Clock.seconds`."""
        self._start.record()
        for _ in range(calls):
            call()
        self._end.record()
        self._end.synchronize()
        return float(self._cupy.cuda.get_elapsed_time(self._start, self._end)) * 1e-3 / calls


@dataclass(frozen=True)
class Figures:
    """Times of one call, in seconds.

    Attributes:
        seconds: Median of the samples.
        lower: Lower quartile.
        upper: Upper quartile.
        least: Least sample.
        samples: Number of samples.
        calls: Calls per sample.
    """

    seconds: float
    lower: float
    upper: float
    least: float
    samples: int
    calls: int

    def as_dict(self) -> dict[str, float]:
        """Return the figures for JSON."""
        return asdict(self)


def timed(
    call: Call, clock: Clock, *, samples: int = SAMPLES, sample_s: float = SAMPLE_S, warm_s: float = WARM_S
) -> Figures:
    """Time a call.

    Args:
        call: The call to time.
        clock: The clock.
        samples: Number of samples.
        sample_s: Duration of a sample in seconds.
        warm_s: Duration of the warm-up in seconds.
    """
    clock.seconds(call, 2)
    calls = max(1, round(sample_s / max(clock.seconds(call, 3), 1e-9)))
    started = time.perf_counter()
    while time.perf_counter() - started < warm_s:
        clock.seconds(call, calls)
    taken = np.array([clock.seconds(call, calls) for _ in range(samples)])
    lower, middle, upper = (float(v) for v in np.percentile(taken, (25, 50, 75)))
    return Figures(middle, lower, upper, float(taken.min()), samples, calls)
