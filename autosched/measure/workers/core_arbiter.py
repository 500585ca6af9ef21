"""Taking turns at the cores: any number of compilers and what draws candidates, or one measurement."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class CoreArbiter:
    """Keeps measurements alone where all use the same cores; lets everything go on side by side elsewhere.

    Args:
        apart: Whether they have to be apart.
        batch: Compiled candidates that a measurement waits for then, unless nothing is left to compile.
    """

    def __init__(self, *, apart: bool, batch: int) -> None:
        self._apart = apart
        self._batch = batch
        self._changed = threading.Condition()
        self._expected = 0
        self._working = 0
        self._compiled = 0
        self._measuring = False
        self._stopped = False

    def expect(self) -> None:
        """Say that one more candidate is going to be compiled."""
        with self._changed:
            self._expected += 1

    def put_back(self) -> None:
        """Say that the candidate at which this thread works is not compiled, and still to be expected."""
        with self._changed:
            self._expected += 1
            self._compiled -= 1

    def stop(self) -> None:
        """Let nobody wait any longer."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Wait for a measurement that is running or about to, then use the cores."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or not (self._apart and self._measuring))
            self._working += 1
        try:
            yield
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Work at one candidate that was expected, until it is compiled."""
        with self.working():
            try:
                yield
            finally:
                with self._changed:
                    self._expected -= 1
                    self._compiled += 1

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Wait for a batch, let no further work begin, wait for what is at work, then measure all there is."""
        with self._changed:
            if self._apart:
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
