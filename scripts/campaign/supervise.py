"""A child process that is ended with all it started when its time is over."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
        # A signal that arrives while the child is being started waits until it can be ended, too.
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        child = None
        killed = False
        try:
            child = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=env, cwd=cwd,
                start_new_session=True, preexec_fn=_unblock,
            )  # fmt: skip
            _unblock()
            child.wait(max(seconds, 0.0))
        except subprocess.TimeoutExpired:
            killed = True
        finally:  # also what it left behind, and when this program is interrupted
            if child is not None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
            _unblock()
    return Ended(child.returncode, time.monotonic() - started, killed, tail_of(log))


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)


def tail_of(log: Path, size: int = _TAIL_BYTES) -> str:
    """Return the end of a text file."""
    with log.open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - size, 0))
        return file.read().decode(errors="replace").strip()
