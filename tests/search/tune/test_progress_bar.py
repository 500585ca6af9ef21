"""The progress bar, on a pseudo-terminal."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich import get_console
from rich.live import Live

import autosched
from autosched.apps.registry import get_app
from autosched.search.tune import progress_bar as module
from autosched.search.tune.progress_bar import progress_bar

pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
APP = get_app("blur")


class Terminal:
    """A pseudo-terminal."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ours, theirs = pty.openpty()
        self.stream = os.fdopen(theirs, "w")
        os.set_blocking(self.ours, False)
        self._monkeypatch = monkeypatch

    def attach(self) -> None:
        """Become standard error, within the test: capturing sets it anew after the fixtures."""
        self._monkeypatch.setattr(sys, "stderr", self.stream)
        self._monkeypatch.setenv("TERM", "xterm")

    def text(self) -> str:
        """Return the output since the last call."""
        self.stream.flush()
        try:
            return os.read(self.ours, 1 << 20).decode()
        except BlockingIOError:
            return ""

    def wait_for(self, text: str) -> str:
        """Return the output once it has a text; fails after a minute."""
        shown, end = "", time.monotonic() + 60
        while text not in shown:
            assert time.monotonic() < end, f"{text!r} is not in {shown!r}"
            time.sleep(0.01)
            shown += self.text()
        return shown


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    made = Terminal(monkeypatch)
    yield made
    made.stream.close()
    os.close(made.ours)


def test_a_long_search_has_a_bar_that_is_removed(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal.attach()
    monkeypatch.setattr(module, "DELAY_S", 0.01)
    with progress_bar() as report:
        assert report is not None
        assert "/" not in terminal.wait_for("searching")
        report(3, 80)
        terminal.wait_for("3/80")
    assert terminal.text().endswith("\x1b[2K")  # the line is erased
    assert sys.stderr is terminal.stream


def test_a_short_search_has_none(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal.attach()
    monkeypatch.setattr(module, "DELAY_S", 3600.0)
    with progress_bar() as report:
        assert report is not None
        report(1, 1)
    assert terminal.text() == ""


def test_a_failed_search_removes_the_bar(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal.attach()
    monkeypatch.setattr(module, "DELAY_S", 0.01)
    with pytest.raises(ZeroDivisionError), progress_bar():
        terminal.wait_for("searching")
        raise ZeroDivisionError
    assert terminal.text().endswith("\x1b[2K")


def test_no_bar_beside_a_display_of_the_callers(terminal: Terminal) -> None:
    terminal.attach()
    with Live("mine", console=get_console(), auto_refresh=False), progress_bar() as report:
        assert report is None


@pytest.mark.parametrize("stream", [io.StringIO(), None])
def test_no_bar_without_a_terminal(stream: io.StringIO | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar() as report:
        assert report is None


@pytest.mark.parametrize("own", [False, True])
def test_schedule_shows_a_bar_unless_it_has_a_callback(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: bool
) -> None:
    terminal.attach()
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(module, "DELAY_S", 0.0)
    calls: list[tuple[int, int]] = []
    progress = (lambda done, total: calls.append((done, total))) if own else None
    autosched.schedule(APP.build(), APP.shapes(APP.small_sizes), "cpu", samples=3, reuse=False, progress=progress)
    assert ("searching" in terminal.text()) is not own
    assert bool(calls) is own
