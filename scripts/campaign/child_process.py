"""A child process that is ended with all it started when its time is over."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_TAIL_BYTES = 4000
_ENDING = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True)
class Ended:
    """How a child process ended.

    Attributes:
        code: Its exit code, negative for a signal.
        seconds: How long it ran.
        killed: Whether its time was over.
        tail: The end of what it printed.
    """

    code: int
    seconds: float
    killed: bool
    tail: str


def run_child(
    command: Sequence[str], seconds: float, log: Path, *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Ended:
    """Run a program in a process group of its own, at most for some time.

    Args:
        command: The program and its arguments.
        seconds: Time after which the group is killed.
        log: File that standard output and error are written to.
        env: Its environment; this process's when left out.
        cwd: Its directory.
    """
    started = time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        child = None
        killed = False
        try:
            with _signals_waiting():
                child = subprocess.Popen(
                    list(command), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=env, cwd=cwd,
                    start_new_session=True,
                )  # fmt: skip
            child.wait(max(seconds, 0.0))
        except subprocess.TimeoutExpired:
            killed = True
        finally:  # also what it left behind, and when this program is interrupted
            if child is not None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    return Ended(child.returncode, time.monotonic() - started, killed, tail_of(log))


@contextmanager
def _signals_waiting() -> Iterator[None]:
    """Let signals that end this program wait until a child that is being started is known, so that it ends, too."""
    if threading.current_thread() is not threading.main_thread():  # only that one handles signals
        yield
        return
    came: list[int] = []
    before = {s: signal.signal(s, lambda number, _: came.append(number)) for s in _ENDING}
    try:
        yield
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
    for number in came:
        signal.raise_signal(number)


def tail_of(log: Path, size: int = _TAIL_BYTES) -> str:
    """Return the end of a text file."""
    with log.open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - size, 0))
        return file.read().decode(errors="replace").strip()
