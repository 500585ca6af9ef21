"""Processes that need the same compilation: one does it, the others take it from the cache, now or a little later."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
    """Return what is made of each item; no two processes of this machine make that of equal keys at the same time.

    Items that another process is at come last, when it is likely to have finished.

    Args:
        items: What to make something of.
        key: Returns the SHA-256, in hexadecimal, of what an item is.
        make: Makes it, or takes it from a cache that the processes share.
        wait: Whether to wait for what another process is at.

    Raises:
        MadeElsewhere: If another process is at one of them and this one does not wait; it has made all others.
        CacheError: If the cache directory cannot be written. What ``make`` raises passes through.
    """
    made: dict[str, Value] = {}
    busy: dict[str, Item] = {}
    names = [key(item) for item in items]
    for name, item in zip(names, items, strict=True):
        if name in made or name in busy:
            continue
        with _locked(name, wait=False) as ours:
            if ours:
                made[name] = make(item)
            else:
                busy[name] = item
    for name, item in busy.items():
        with _locked(name, wait=wait) as ours:
            if not ours:
                raise MadeElsewhere
            made[name] = make(item)
    return [made[name] for name in names]


@contextmanager
def _locked(name: str, *, wait: bool) -> Iterator[bool]:
    """Hold the lock of a key, shared with few others; the system frees it when its process ends, however it does."""
    directory = settings().require_cache_dir() / "locks"
    path = directory / f"{int(name[:8], 16) % _STRIPES:03d}.lock"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CacheError(
            f"the cache directory {directory} cannot be written ({error.strerror or error}): "
            "set AUTOSCHED_CACHE_DIR to a directory that can"
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
