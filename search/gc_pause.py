"""Fewer passes of Python's cycle collector while a search runs.

A search makes many small objects that live as long as it does and next to no cycles. With Python's own thresholds the
collector goes through all of them again and again, and from time to time through everything that the program around has
in memory: a sixth of the time of a search of local_laplacian.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

THRESHOLDS = (50_000, 20, 100)
"""New objects before the collector looks at these, such looks before one at those that outlived one, and so on."""
COLLECT_AFTER_S = 10.0
"""Seconds of searching, in one search or in many, after which the collector looks at all there is: some 100 MB may have
been left behind, which take half a second to be freed."""


@dataclass
class _Running:
    """How many searches run, in all threads, and the thresholds that there were before the first of them.

    ``since`` is when that one began, ``uncollected`` the seconds of earlier ones since the collector looked at all.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    count: int = 0
    before: tuple[int, int, int] = (0, 0, 0)
    since: float = 0.0
    uncollected: float = 0.0

    def begin(self) -> None:
        """Note that a search begins where there is none, and let the collector look at what others have left."""
        self.before = gc.get_threshold()
        if self.uncollected >= COLLECT_AFTER_S and self.before[0] and gc.isenabled():
            gc.collect()
            self.uncollected = 0.0
        self.since = time.perf_counter()

    def end(self) -> None:
        """Note that no search is left."""
        self.uncollected += time.perf_counter() - self.since


_RUNNING = _Running()


@contextmanager
def reduced_gc() -> Iterator[None]:
    """Raise the collector's thresholds, and set them back when no search is left that wants this.

    Thresholds that are higher already stay, and so does a collector that is switched off.
    """
    with _RUNNING.lock:
        if _RUNNING.count == 0:
            _RUNNING.begin()
            if _RUNNING.before[0]:  # 0 is never
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
                _put_with_the_old()
                gc.set_threshold(*_RUNNING.before)


def _put_with_the_old() -> None:
    """Count all objects as old without looking at them: under the former thresholds the collector would at once."""
    if not gc.get_freeze_count():  # else somebody wants some left alone
        gc.freeze()
        gc.unfreeze()
