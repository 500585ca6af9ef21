"""Progress bar of a search on a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

DELAY_S = 1.0
"""Seconds after which the bar appears; shorter searches show none."""


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar on standard error during the block, from its second second on, and remove it at the end.

    Yields:
        A callback for the number of finished and of all searches; None without a bar, which takes a terminal that shows
        no display of ``rich`` of the caller's.
    """
    if not _is_free_terminal():
        yield None
        return
    bar = _DelayedBar()
    timer = threading.Timer(DELAY_S, bar.show)
    timer.daemon = True
    timer.start()
    try:
        yield bar.update
    finally:
        timer.cancel()
        bar.close()


class _DelayedBar:
    """A bar that a timer shows; searches report from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._closed = False
        self._done, self._total = 0, 1

    def show(self) -> None:
        """Show the bar, unless the search has ended."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        with self._lock:
            if self._closed:
                return
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"))
            self._bar = Progress(
                *columns,
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
                refresh_per_second=4,
                redirect_stdout=False,
            )
            self._task = self._bar.add_task("searching", total=None, count="")  # a pulse: the first search has no steps
            self._bar.start()
            self._draw()

    def update(self, done: int, total: int) -> None:
        """Set the number of finished and of all searches."""
        with self._lock:
            self._done, self._total = done, total
            self._draw()

    def close(self) -> None:
        """Remove the bar."""
        with self._lock:
            self._closed = True
            if self._bar is not None:
                self._bar.stop()

    def _draw(self) -> None:
        if self._bar is not None and self._task is not None and self._total > 1:
            count = f"{self._done}/{self._total}"
            self._bar.update(self._task, completed=self._done, total=self._total, count=count)


def _is_free_terminal() -> bool:
    """Return whether standard error is a terminal without a live display of the caller's."""
    if sys.stderr is None or not sys.stderr.isatty():
        return False
    if "rich.console" not in sys.modules:
        return True
    from rich import get_console

    console = get_console()
    # one display at a time is rich's own rule; its attribute depends on the version
    return not (getattr(console, "_live_stack", None) or getattr(console, "_live", None))
