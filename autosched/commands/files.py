"""Read and write arrays as .npz files, which are replaced whole or not at all."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from autosched.atomic_files import replacement_of
from autosched.errors import InputError
from autosched.lang.dtypes import bfloat16

Array = np.ndarray[Any, Any]

_UNREADABLE = (ValueError, EOFError, KeyError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error, struct.error)
"""Errors of NumPy and zipfile for files that are truncated, corrupted, encrypted or no archives."""


def read_arrays(path: Path, names: Iterable[str]) -> dict[str, Array]:
    """Return the named arrays of an .npz file in their stored form.

    Args:
        path: The file.
        names: Required keys; further arrays are not read.

    Raises:
        InputError: If the file cannot be read, is no .npz, or lacks a key.
    """
    try:
        with open(path, "rb") as file, _open_archive(path, file) as archive:
            wanted = list(names)
            missing = [name for name in wanted if name not in archive.files]
            if missing:
                raise InputError(
                    f"{path} lacks input {', '.join(map(repr, missing))}; it holds "
                    f"{', '.join(archive.files) or 'nothing'}: name the arrays in np.savez(path, {missing[0]}=array)"
                )
            return {name: _read_array(path, archive, name) for name in wanted}
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error


def _open_archive(path: Path, file: IO[bytes]) -> Any:
    try:
        archive = np.load(file, allow_pickle=False)
    except _UNREADABLE as error:
        raise InputError(f"{path} is no .npz file: write it with np.savez(path, name=array)") from error
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise InputError(f"{path} is a .npy file, one array without a name: write np.savez(path, name=array)")
    return archive


def _read_array(path: Path, archive: Any, name: str) -> Array:
    try:
        array = archive[name]
        if isinstance(array, np.ndarray) and array.dtype == np.dtype(
            "V2"
        ):  # NumPy writes a bfloat16 as two bytes without a type
            array = array.view(bfloat16.numpy)
    except _UNREADABLE as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"array {name!r} of {path} cannot be read ({reason}): write the file again") from error
    if not isinstance(array, np.ndarray):
        raise InputError(f"{name!r} of {path} is no array: write it with np.savez(path, {name}=array)")
    return array


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that replaces `path` when the block ends without an error, and is removed otherwise.

    It is opened at once, so that an unwritable path is refused before the work of the block.

    Raises:
        InputError: If the path cannot be written.
    """
    if path.exists() and not path.is_file():  # a rename would replace a device
        raise InputError(f"cannot write {path}: it exists and is no file; choose another path")
    try:
        with replacement_of(path) as beside, open(beside, "xb") as file:
            yield file
    except OSError as error:
        raise _unwritable(path, error) from error


def check_writable(*paths: Path | None) -> None:
    """Refuse unwritable paths before any work.

    Raises:
        InputError: If a path is a directory, or its directory does not exist or cannot be written.
    """
    for path in paths:
        if path is None:
            continue
        if path.exists() and not path.is_file():
            raise InputError(f"cannot write {path}: it exists and is no file; choose another path")
        directory = path.absolute().parent
        if not directory.is_dir():
            raise InputError(f"cannot write {path}: there is no directory {directory}; make it, or choose another path")
        if not os.access(directory, os.W_OK):
            raise InputError(f"cannot write {path}: {directory} cannot be written; choose another path")


def check_directory(path: Path) -> None:
    """Make a directory for several files, before any work.

    Raises:
        InputError: If the path is a file, or the directory cannot be made or written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make directory {path}: {error.strerror or error}; choose another path") from error
    if not os.access(path, os.W_OK):
        raise InputError(f"cannot write to directory {path}: choose another path")


def write_arrays(file: IO[bytes], arrays: Mapping[str, Array]) -> None:
    """Write arrays as .npz, under their names."""
    # Not np.savez: its parameter `file` may be the name of an output.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(f"cannot write {path}: {error.strerror or error}; choose a directory you can write to")
