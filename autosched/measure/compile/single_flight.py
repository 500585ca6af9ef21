"""Processes that need the same compilation: one does it, the others take it from the cache, now or a little later."""

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
    """Another process is at it, and this one is not to wait."""


def once_each(
    items: Sequence[Item], key: Callable[[Item], str], make: Callable[[Item], Value], *, wait: bool = True
) -> list[Value]:
    """Return what is made of each item, one after the other; see `once_in_batches`."""
    return once_in_batches(items, key, lambda batch: [make(item) for item in batch], at_once=1, wait=wait)


def once_in_batches(
    items: Sequence[Item],
    key: Callable[[Item], str],
    make: Callable[[Sequence[Item]], Sequence[Value]],
    *,
    at_once: int,
    wait: bool = True,
) -> list[Value]:
    """Return what is made of each item; no two processes of this machine make that of equal keys at the same time.

    Items that another process is at come last, when it is likely to have finished.

    Args:
        items: What to make something of.
        key: Returns the SHA-256, in hexadecimal, of what an item is.
        make: Makes it of several, in order, or takes it from a cache that the processes share.
        at_once: Items that are made together at most.
        wait: Whether to wait for what another process is at.

    Raises:
        MadeElsewhere: If another process is at one of them and this one does not wait; it has made all others.
        CacheError: If the cache directory cannot be written. What ``make`` raises passes through.
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
    """Locks of keys, each shared with few others; the system frees them when the process ends, however it does."""

    def __init__(self) -> None:
        super().__init__()
        self._held: set[Path] = set()

    def take(self, name: str, *, wait: bool = False) -> bool:
        """Hold the lock of a key until all are let go, unless another process does and this one is not to wait."""
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
