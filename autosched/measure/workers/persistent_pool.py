"""A pool whose processes persist between the runs of a measurer, for consecutive batches."""

from __future__ import annotations

import queue
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Self

from autosched.measure.backend import Backend
from autosched.measure.settings import MeasureSettings
from autosched.measure.workers.pool import Event, LocalPool, Pool
from autosched.measure.workers.task import Task


class PersistentPool:
    """Makes a pool at the first run, which later runs reuse until it is closed.

    An error in a run closes it at once. After a run that reached its deadline, candidates are still in flight: the
    owner must close it then.

    Args:
        make: Makes the pool.
    """

    def __init__(self, make: Callable[[Backend, MeasureSettings], Pool] = LocalPool) -> None:
        self._make = make
        self._pool: Pool | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes."""
        if self._pool is not None:
            self._pool.__exit__(None, None, None)
            self._pool = None

    def lend(self, backend: Backend, settings: MeasureSettings) -> Pool:
        """Return the pool for one run, as the argument ``pool`` of a `Measurer`."""
        return _Lent(self, backend, settings)

    def entered(self, backend: Backend, settings: MeasureSettings) -> Pool:
        """Return the started pool."""
        if self._pool is None:
            self._pool = self._make(backend, settings).__enter__()
        return self._pool


class _Lent:
    """The pool during one run."""

    def __init__(self, owner: PersistentPool, backend: Backend, settings: MeasureSettings) -> None:
        self._owner = owner
        self._made_for = backend, settings
        self._pool: Pool | None = None
        self.results: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        self._pool = self._owner.entered(*self._made_for)
        self.results = self._pool.results
        return self

    def __exit__(self, *raised: object) -> None:
        if raised and raised[0] is not None:
            self._owner.close()

    def drawing(self) -> AbstractContextManager[None]:
        """See `Pool`."""
        assert self._pool is not None
        return self._pool.drawing()

    def submit(self, task: Task) -> None:
        """See `Pool`."""
        assert self._pool is not None
        self._pool.submit(task)
