"""The on-disk cache of compiled kernels: safe under concurrent writers, and never wrong after a crash.

An entry is one file, ``<root>/<kind>/<key[:2]>/<key>-<digest><suffix>``. The key is a SHA-256 of
everything the content depends on; the digest is the SHA-256 of the content itself. A reader verifies
the digest, so a truncated or corrupted file is a miss. So is a file that a power failure left
incomplete, which makes syncing to the disk unnecessary. A writer renames a finished file into place,
so two writers of one key never mix, even if their compilers are not deterministic.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from autosched._version import __version__
from autosched.errors import CacheError, shortened
from autosched.settings import settings

logger = logging.getLogger(__name__)

FORMAT = 1
"""Version of the cache's layout, part of every key."""

_KIND = re.compile(r"[a-z0-9][a-z0-9-]*")
_SUFFIX = re.compile(r"\.[a-z0-9]+")
_KEY = re.compile(r"[0-9a-f]{64}")
_ENTRY = re.compile(r"([0-9a-f]{64})-[0-9a-f]{64}\.[a-z0-9]+")
_UNFINISHED = re.compile(r"\.writing-[0-9]+-[0-9a-f]{16}\.[a-z0-9]+")
_ABANDONED_AFTER_S = 3600.0

Writer = Callable[[Path], None]


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One cached file.

    Attributes:
        kind: The kind of content, e.g. "cubin".
        key: SHA-256 of everything the content depends on, in hexadecimal.
        path: The file.
        size_bytes: Size of the file.
    """

    kind: str
    key: str
    path: Path
    size_bytes: int


def cache_key(**parts: object) -> str:
    """Return the SHA-256, in hexadecimal, of named parts and this package's version.

    Args:
        **parts: Everything that the cached content depends on, as JSON values.
    """
    named = {"parts": parts, "format": FORMAT, "autosched": __version__}
    text = json.dumps(named, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class DiskCache:
    """The entries of one kind.

    Args:
        kind: Lower-case name of the kind of content, which is also its directory.
        suffix: File name extension of the entries.
        root: Root of the cache; from the current settings when left out.
    """

    def __init__(self, kind: str, *, suffix: str = ".bin", root: Path | None = None) -> None:
        if not _KIND.fullmatch(kind) or not _SUFFIX.fullmatch(suffix):
            raise ValueError(f"kind {kind!r} or suffix {suffix!r} does not make a plain file name")
        self.kind = kind
        self.suffix = suffix
        self._root = root

    @property
    def directory(self) -> Path:
        """Directory of this kind's entries; it may not exist yet."""
        return (self._root or settings().require_cache_dir()) / self.kind

    def get(self, key: str) -> Path | None:
        """Return the path of a key's verified content, or None."""
        entry = self._find(key)
        return entry[0] if entry else None

    def get_bytes(self, key: str) -> bytes | None:
        """Return a key's verified content, or None."""
        entry = self._find(key)
        return entry[1] if entry else None

    def put(self, key: str, content: bytes | Writer) -> Path:
        """Store content under a key and return its path.

        Args:
            key: From :func:`cache_key`.
            content: The bytes, or a function that writes them to the path that is its argument.

        Raises:
            CacheError: If the cache directory cannot be written. Errors of a writer function
                propagate.
        """
        shard = self._shard(key)
        temporary = shard / f".writing-{os.getpid()}-{secrets.token_hex(8)}{self.suffix}"
        with self._explain_os_errors():
            shard.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            if callable(content):
                content(temporary)
            else:
                with self._explain_os_errors():
                    temporary.write_bytes(content)
            with self._explain_os_errors():
                digest = hashlib.sha256(temporary.read_bytes()).hexdigest()
                final = shard / f"{key}-{digest}{self.suffix}"
                os.replace(temporary, final)
        finally:
            with contextlib.suppress(OSError):  # an unmounted disk
                temporary.unlink(missing_ok=True)
        logger.debug("cache: stored %s", final)
        return final

    def discard(self, key: str) -> None:
        """Remove the entry of a key, if there is one and this process may remove it."""
        with contextlib.suppress(OSError):  # a read-only cache: the entry stays
            for path in self._shard(key).glob(f"{key}-*{self.suffix}"):
                path.unlink()

    def entries(self) -> list[CacheEntry]:
        """Return this kind's entries, largest first; their content is not verified.

        Raises:
            CacheError: If the cache directory cannot be read.
        """
        entries = []
        for path in self._files():
            if match := _ENTRY.fullmatch(path.name):
                with contextlib.suppress(FileNotFoundError):  # cleared by another process
                    entries.append(CacheEntry(self.kind, match[1], path, path.stat().st_size))
        return sorted(entries, key=lambda entry: (-entry.size_bytes, entry.path))

    def clear(self) -> int:
        """Remove this kind's entries and files of killed writers; return the number of removed files."""
        removed = 0
        with self._explain_os_errors():
            for path in list(self._files()):
                if _ENTRY.fullmatch(path.name) or _is_abandoned(path):
                    path.unlink(missing_ok=True)
                    removed += 1
        return removed

    def _shard(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key!r} is not a SHA-256 in hexadecimal")
        return self.directory / key[:2]

    def _find(self, key: str) -> tuple[Path, bytes] | None:
        shard = self._shard(key)
        with self._explain_os_errors("read"):
            candidates = sorted(shard.glob(f"{key}-*{self.suffix}"))
        for path in candidates:
            try:
                content = path.read_bytes()
            except OSError as error:  # cleared by another process, or not readable
                logger.debug("cache: %s cannot be read: %s", path, error)
                continue
            if path.name == f"{key}-{hashlib.sha256(content).hexdigest()}{self.suffix}":
                logger.debug("cache: hit %s", path)
                return path, content
            logger.warning("cache: %s is corrupted and is removed", path)
            with contextlib.suppress(OSError):  # a read-only cache: the entry stays a miss
                path.unlink()
        logger.debug("cache: miss %s %s", self.kind, key)
        return None

    def _files(self) -> Iterator[Path]:
        """Yield files that this class wrote; the root may hold other files."""
        with self._explain_os_errors("read"):
            paths = list(self.directory.glob("[0-9a-f][0-9a-f]/*"))
        for path in paths:
            entry = _ENTRY.fullmatch(path.name)
            if _UNFINISHED.fullmatch(path.name) or (entry and entry[1][:2] == path.parent.name):
                yield path

    def _explain_os_errors(self, action: str = "written") -> contextlib.AbstractContextManager[None]:
        return _explained(self.directory, action)


def cached_kinds() -> list[str]:
    """Return the kinds with files on disk.

    Raises:
        CacheError: If the cache directory cannot be read.
    """
    root = settings().require_cache_dir()
    with _explained(root, "read"):
        if not root.is_dir():
            return []
        names = sorted(path.name for path in root.iterdir() if path.is_dir() and _KIND.fullmatch(path.name))
    return [name for name in names if any(DiskCache(name)._files())]


def cache_usage() -> dict[str, tuple[int, int]]:
    """Return the number of entries and their bytes for every kind on disk."""
    usage = {}
    for kind in cached_kinds():
        entries = DiskCache(kind).entries()
        usage[kind] = (len(entries), sum(entry.size_bytes for entry in entries))
    return usage


def clear_cache() -> int:
    """Remove all files of the cache; return their number."""
    return sum(DiskCache(kind).clear() for kind in cached_kinds())


def _is_abandoned(unfinished: Path) -> bool:
    """Whether an unfinished file's writer is dead, by age: the writer may have run on another machine."""
    try:
        return time.time() - unfinished.stat().st_mtime > _ABANDONED_AFTER_S
    except FileNotFoundError:  # finished by its writer
        return False


@contextlib.contextmanager
def _explained(directory: Path, action: str) -> Iterator[None]:
    """Turn errors of the operating system into a CacheError with the directory and the way out."""
    try:
        yield
    except OSError as error:
        raise CacheError(
            f"the cache directory {shortened(str(directory))} cannot be {action} ({error.strerror or error}): "
            "set AUTOSCHED_CACHE_DIR to a directory that can"
        ) from error
