"""Atomic replacement of files: readers see the old or the new content, never a part."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Write a temporary file in the same directory, and rename it to ``path``.

    Args:
        path: The file; its directory is created if necessary.
        write: Writes the content to the given path.

    Raises:
        OSError: If it cannot be written; the old file is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        write(beside)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
