"""Write all files of an export or none, without replacing files of other origin."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosched.atomic_files import replace_files
from autosched.errors import InputError

MANIFEST = "autosched-export.json"
_FORMAT = "autosched-export"


@dataclass(frozen=True, slots=True)
class _Earlier:
    """The export in a directory: name of the function, and the SHA-256 of each of its files."""

    name: str
    files: Mapping[str, str]


def write_export(directory: Path, name: str, files: Mapping[str, str]) -> tuple[Path, ...]:
    """Write an export into a directory, which is made if it does not exist.

    An earlier export of the same name is replaced; unmodified files that are no longer part of it are removed.

    Args:
        directory: The directory.
        name: Name of the exported function.
        files: Text of each file by name.

    Returns:
        The files' paths.

    Raises:
        InputError: If the directory holds another export or a modified file of these names, or cannot be written.
    """
    try:
        earlier = _read_manifest(directory)
        if earlier is not None and earlier.name != name:
            raise InputError(
                f"{directory} holds the export of {earlier.name!r}: choose another directory for {name!r}, or remove it"
            )
        texts = {**files, MANIFEST: _manifest(name, files)}
        _refuse_foreign(directory, texts, earlier.files if earlier else {})
        replace_files(directory, texts)  # the manifest comes last
        for stale in (earlier.files if earlier else {}).keys() - texts.keys():
            if _digest(directory / stale) == (earlier.files if earlier else {})[stale]:
                (directory / stale).unlink()
    except OSError as error:
        raise InputError(
            f"cannot export to {directory}: {error.strerror or error}; choose a directory you can write to"
        ) from error
    return tuple(directory / file for file in files)


def _manifest(name: str, files: Mapping[str, str]) -> str:
    digests = {file: hashlib.sha256(text.encode()).hexdigest() for file, text in files.items()}
    return json.dumps({"format": _FORMAT, "version": 1, "name": name, "files": digests}, indent=2) + "\n"


def _read_manifest(directory: Path) -> _Earlier | None:
    """Return the export in a directory; None if there is none."""
    path = directory / MANIFEST
    if directory.exists() and not directory.is_dir():
        raise InputError(f"cannot export to {directory}: it is no directory; choose another path")
    if not path.exists():
        return None
    try:
        document: Any = json.loads(path.read_bytes())
        files = {str(file): str(digest) for file, digest in document["files"].items()}
        if document["format"] != _FORMAT or any(Path(file).name != file for file in files):
            raise ValueError
        return _Earlier(str(document["name"]), files)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is not a manifest of an export: choose another directory, or remove it") from error


def _refuse_foreign(directory: Path, texts: Mapping[str, str], written: Mapping[str, str]) -> None:
    """Refuse to replace a file that is neither of an earlier export nor equal to its new content."""
    for file, text in texts.items():
        path = directory / file
        if file == MANIFEST or not (path.exists() or path.is_symlink()):
            continue
        if not path.is_file() or _digest(path) not in {written.get(file), hashlib.sha256(text.encode()).hexdigest()}:
            raise InputError(
                f"{path} is there and is not as an export wrote it: move it away, or choose another directory"
            )


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
