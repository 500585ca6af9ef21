"""Times of repeated calls: on a GPU between two events, elsewhere by the host's clock; caches are warm."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

Call = Callable[[], Any]

SAMPLES = 15
SAMPLE_S = 0.01
"""A sample is as many calls as take that long."""
WARM_S = 0.1
"""Calls are made for that long before the first sample, so that the clocks of the device have risen."""


class Clock(Protocol):
    """Times many calls at once."""

    def seconds(self, call: Call, calls: int) -> float:
        """Return the time of one call, in seconds, as the mean of some."""


class HostClock:
    """The host's clock; for a GPU it includes what the host needs to launch, since only the last call is waited for.

    Args:
        wait: Waits until all calls are done.
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
        least: The least of them.
        samples: Their number.
        calls: Calls of a sample.
    """

    seconds: float
    lower: float
    upper: float
    least: float
    samples: int
    calls: int

    def as_dict(self) -> dict[str, float]:
        """Return them for JSON."""
        return asdict(self)


def timed(
    call: Call, clock: Clock, *, samples: int = SAMPLES, sample_s: float = SAMPLE_S, warm_s: float = WARM_S
) -> Figures:
    """Time a call.

    Args:
        call: What is timed.
        clock: By what.
        samples: Samples to take.
        sample_s: How long one should take, in seconds.
        warm_s: How long to run before the first, in seconds.
    """
    clock.seconds(call, 2)
    calls = max(1, round(sample_s / max(clock.seconds(call, 3), 1e-9)))
    started = time.perf_counter()
    while time.perf_counter() - started < warm_s:
        clock.seconds(call, calls)
    taken = np.array([clock.seconds(call, calls) for _ in range(samples)])
    lower, middle, upper = (float(v) for v in np.percentile(taken, (25, 50, 75)))
    return Figures(middle, lower, upper, float(taken.min()), samples, calls)
