"""Arbitration of the cores between measurements and all other work: compiling and drawing candidates."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class CoreArbiter:
    """Gives measurements exclusive use of the cores, if the device needs it.

    Otherwise measurements, compilation and drawing run concurrently.

    Args:
        exclusive: Whether measurements need the cores exclusively.
        batch: Compiled candidates that an exclusive measurement waits for, unless nothing is left to compile.
    """

    def __init__(self, *, exclusive: bool, batch: int) -> None:
        self._exclusive = exclusive
        self._batch = batch
        self._changed = threading.Condition()
        self._expected = 0
        self._working = 0
        self._compiled = 0
        self._measuring = False
        self._stopped = False

    def expect(self) -> None:
        """Register one more candidate for compilation."""
        with self._changed:
            self._expected += 1

    def put_back(self) -> None:
        """Register the current candidate of this thread for compilation again."""
        with self._changed:
            self._expected += 1
            self._compiled -= 1

    def stop(self) -> None:
        """End all waiting."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Wait for a running or announced measurement, then use the cores."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or not (self._exclusive and self._measuring))
            self._working += 1
        try:
            yield
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Use the cores to compile one registered candidate."""
        with self.working():
            try:
                yield
            finally:
                with self._changed:
                    self._expected -= 1
                    self._compiled += 1

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Wait for a batch, block new work, wait for running work, then use the cores exclusively."""
        with self._changed:
            if self._exclusive:
                self._changed.wait_for(lambda: self._stopped or self._compiled >= self._batch or not self._expected)
                self._measuring = True
                self._changed.wait_for(lambda: self._stopped or not self._working)
            self._compiled = 0
        try:
            yield
        finally:
            with self._changed:
                self._measuring = False
                self._changed.notify_all()
