"""Writing files so that a reader sees the old one or the new one, never half of one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Let something be written beside a file, and put it in the file's place.

    Args:
        path: The file; its directory is made if it is not there.
        write: Writes to the path it is given.

    Raises:
        OSError: If it cannot be written; the old file is left as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        write(beside)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
