"""Replace files whole or not at all: a reader, and the next run after a kill, finds the old content or the new."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacement_of(path: Path) -> Iterator[Path]:
    """Yield a path beside a file, whose content replaces the file when the block ends without an error.

    Args:
        path: The file; its directory must exist.

    Raises:
        OSError: If the file cannot be replaced; it keeps its old content.
    """
    beside = path.with_name(f".{path.name}.{_unique_suffix()}")
    try:
        yield beside
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Replace a file by the output of a function.

    Args:
        path: The file; its directory is made if it does not exist.
        write: Writes the content to the path that is its argument.

    Raises:
        OSError: If the file cannot be replaced; it keeps its old content.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacement_of(path) as beside:
        write(beside)


def replace_files(directory: Path, texts: Mapping[str, str]) -> None:
    """Write several text files into a directory.

    A new directory appears with all of its files. In an existing one all files are written before the first is
    replaced, and they are replaced in the order of ``texts``.

    Args:
        directory: The directory.
        texts: Content of each file by name.

    Raises:
        OSError: If a file cannot be written.
    """
    if not directory.exists():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with _staging_directory(directory.parent, texts) as staging:
            os.rename(staging, directory)
        return
    with _staging_directory(directory, texts) as staging:  # inside: a mount point has a file system of its own
        for name in texts:
            os.replace(staging / name, directory / name)


@contextmanager
def _staging_directory(parent: Path, texts: Mapping[str, str]) -> Iterator[Path]:
    """Yield a new directory with the files, which is removed after the block."""
    staging = parent / f".autosched-{_unique_suffix()}"
    staging.mkdir()
    try:
        for name, text in texts.items():
            (staging / name).write_text(text, encoding="utf-8")
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _unique_suffix() -> str:
    return f"{os.getpid()}-{secrets.token_hex(4)}"
