"""Single flight: of several processes that need a compilation, one compiles and all other ones use the cache."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from autosched.errors import CacheError
from autosched.settings import settings

Item = TypeVar("Item")
Value = TypeVar("Value")

_STRIPES = 256


class MadeElsewhere(Exception):
    """Another process is making the item, and this one does not wait."""


def once_each(
    items: Sequence[Item], key: Callable[[Item], str], make: Callable[[Item], Value], *, wait: bool = True
) -> list[Value]:
    """Return the value of each item, one by one; see `once_in_batches`."""
    return once_in_batches(items, key, lambda batch: [make(item) for item in batch], at_once=1, wait=wait)


def once_in_batches(
    items: Sequence[Item],
    key: Callable[[Item], str],
    make: Callable[[Sequence[Item]], Sequence[Value]],
    *,
    at_once: int,
    wait: bool = True,
) -> list[Value]:
    """Return the value of each item; processes of this machine never make values of equal keys concurrently.

    Items that another process is making come last, when it has probably finished.

    Args:
        items: The items.
        key: Returns an item's key, a SHA-256 in hexadecimal.
        make: Makes the values of a batch in order, or returns them from a cache that the processes share.
        at_once: Largest batch.
        wait: Whether to wait for items that another process is making.

    Raises:
        MadeElsewhere: Without waiting, if another process is making an item; the rest is made.
        CacheError: If the cache directory cannot be written. Errors of ``make`` propagate.
    """
    names = [key(item) for item in items]
    left = dict(zip(names, items, strict=True))
    made: dict[str, Value] = {}
    busy: dict[str, Item] = {}
    while left:
        with _Locks() as locks:
            batch: dict[str, Item] = {}
            while left and len(batch) < at_once:
                name = next(iter(left))
                (batch if locks.take(name) else busy)[name] = left.pop(name)
            made.update(zip(batch, make(list(batch.values())) if batch else (), strict=True))
    for name, item in busy.items():
        with _Locks() as locks:
            if not locks.take(name, wait=wait):
                raise MadeElsewhere
            made[name] = make([item])[0]
    return [made[name] for name in names]


class _Locks(ExitStack):
    """Locks of keys, each shared by a few keys; the system releases them at the end of the process."""

    def __init__(self) -> None:
        super().__init__()
        self._held: set[Path] = set()

    def take(self, name: str, *, wait: bool = False) -> bool:
        """Take the lock of a key until all are released; without waiting, fail if another process has it."""
        directory = settings().require_cache_dir() / "locks"
        path = directory / f"{int(name[:8], 16) % _STRIPES:03d}.lock"
        if path in self._held:
            return True
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CacheError(
                f"the cache directory {directory} cannot be written ({error.strerror or error}): "
                "set AUTOSCHED_CACHE_DIR to a directory that can"
            ) from error
        self.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        self._held.add(path)
        return True
