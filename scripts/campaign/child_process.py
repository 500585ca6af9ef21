"""Child processes with a time limit, killed together with their descendants."""

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
        seconds: Its run time.
        killed: Whether it exceeded its time limit.
        tail: The end of its output.
    """

    code: int
    seconds: float
    killed: bool
    tail: str


def run_child(
    command: Sequence[str], seconds: float, log: Path, *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Ended:
    """Run a program in its own process group, with a time limit.

    Args:
        command: The program and its arguments.
        seconds: Time after which the group is killed.
        log: File for standard output and error.
        env: Its environment (default: this process's).
        cwd: Its working directory.
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
        finally:  # also descendants that are left, and after an interruption
            if child is not None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    return Ended(child.returncode, time.monotonic() - started, killed, tail_of(log))


@contextmanager
def _signals_waiting() -> Iterator[None]:
    """Defer terminating signals while a child is being started, so that the child is killed as well."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread handles signals
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
