"""Cache of kernel texts that the compile processes of one run share.

Its directory is deleted after the run, so it holds nothing of another version of the code.
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
"""Values of one process in the cache, the latest ones: consecutive schedules share kernels."""

_DIRECTORY: Path | None = None
_MADE: deque[Path] = deque()


def enable_text_cache(directory: Path | None) -> None:
    """Share results with all processes that use the same directory; None disables the cache."""
    global _DIRECTORY
    _DIRECTORY = directory


def cached_text(name: str, make: Callable[[], Value]) -> Value:
    """Return a value from the cache of this run, or make it.

    Args:
        name: Name of the value; equal names mean equal values.
        make: Makes the value; its errors propagate.
    """
    if _DIRECTORY is None:
        return make()
    path = _DIRECTORY / hashlib.sha256(name.encode()).hexdigest()
    with contextlib.suppress(OSError):  # not in the cache yet
        cached: Value = pickle.loads(path.read_bytes())  # of this run's own processes
        return cached
    value = make()
    with contextlib.suppress(OSError):  # a value that cannot be stored is made again
        with replacement_of(path) as beside:
            beside.write_bytes(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
        _MADE.append(path)
        if len(_MADE) > MOST_KEPT:
            _MADE.popleft().unlink(missing_ok=True)
    return value
