"""Fewer collections of Python's cyclic garbage collector while a search runs.

A search allocates many small objects that live until it ends, and hardly any cycles. With the default thresholds, the
collector scans these objects again and again, and from time to time the whole heap of the program.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

THRESHOLDS = (50_000, 20, 100)
"""Arguments of `gc.set_threshold` during a search."""
COLLECT_AFTER_S = 10.0
"""Seconds of searching, in one search or in many, after which the next one starts with a full collection."""


@dataclass
class _Running:
    """Running searches of all threads.

    Attributes:
        lock: Guards the other attributes.
        count: Number of running searches.
        before: Thresholds before the first of them.
        since: Time at which the first of them started.
        uncollected: Seconds of earlier searches since the last full collection.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    count: int = 0
    before: tuple[int, int, int] = (0, 0, 0)
    since: float = 0.0
    uncollected: float = 0.0

    def begin(self) -> None:
        """Record the start of the first search; collect the garbage of earlier ones if it is due."""
        self.before = gc.get_threshold()
        if self.uncollected >= COLLECT_AFTER_S and self.before[0] and gc.isenabled():
            gc.collect()
            self.uncollected = 0.0
        self.since = time.perf_counter()

    def end(self) -> None:
        """Record the end of the last search."""
        self.uncollected += time.perf_counter() - self.since


_RUNNING = _Running()


@contextmanager
def reduced_gc() -> Iterator[None]:
    """Raise the collector's thresholds until the last running search ends.

    Higher thresholds are kept, and a disabled collector stays disabled.
    """
    with _RUNNING.lock:
        if _RUNNING.count == 0:
            _RUNNING.begin()
            if _RUNNING.before[0]:  # 0 disables the collector
                raised = (max(pair) for pair in zip(_RUNNING.before, THRESHOLDS, strict=True))
                gc.set_threshold(*raised)
        _RUNNING.count += 1
    try:
        yield
    finally:
        with _RUNNING.lock:
            _RUNNING.count -= 1
            if _RUNNING.count == 0:
                _RUNNING.end()
                _move_to_oldest_generation()
                gc.set_threshold(*_RUNNING.before)


def _move_to_oldest_generation() -> None:
    """Move all objects to the oldest generation, so that the restored thresholds trigger no collection at once."""
    if not gc.get_freeze_count():  # the caller's frozen objects must stay frozen
        gc.freeze()
        gc.unfreeze()
