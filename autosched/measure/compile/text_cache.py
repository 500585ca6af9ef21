"""What the compiling processes of one run have worked out already, for each other: the texts of kernels.

It lives in a directory that goes with the run, so nothing of another version of the code is ever found in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import pickle
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from autosched.atomic_files import replacement_of

Value = TypeVar("Value")

MOST_KEPT = 2000
"""Values of one process that are kept, the latest: schedules that share kernels come one after the other."""

_DIRECTORY: Path | None = None
_MADE: deque[Path] = deque()


def enable_text_cache(directory: Path | None) -> None:
    """Share results of this process with all others that name the same directory; None for nobody."""
    global _DIRECTORY
    _DIRECTORY = directory


def cached_text(name: str, make: Callable[[], Value]) -> Value:
    """Return what a process of this run has made, or make it.

    Args:
        name: What it is; equal names stand for equal values.
        make: Makes it. What it raises passes through.
    """
    if _DIRECTORY is None:
        return make()
    path = _DIRECTORY / hashlib.sha256(name.encode()).hexdigest()
    with contextlib.suppress(OSError):  # nobody has made it yet
        found: Value = pickle.loads(path.read_bytes())  # of this run's own processes
        return found
    value = make()
    with contextlib.suppress(OSError):  # a value that cannot be stored is made again
        with replacement_of(path) as beside:
            beside.write_bytes(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
        _MADE.append(path)
        if len(_MADE) > MOST_KEPT:
            _MADE.popleft().unlink(missing_ok=True)
    return value
