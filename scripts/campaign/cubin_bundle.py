"""Machine code in one file: compiled on one machine, found in the cache of another one."""

from __future__ import annotations

import lzma
import os
import re
import tarfile
from io import BytesIO
from pathlib import Path

CODE_FILE = "code.tar.xz"
KINDS = ("cubin", "nvrtc-log")
"""Directories of the cache that are packed."""
_ENTRY = re.compile(rf"({'|'.join(KINDS)})/[0-9a-f]{{2}}/[0-9a-f]{{64}}-[0-9a-f]{{64}}\.[a-z0-9]+")
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 4, "dict_size": 64 << 20}]
"""Kernels of one pipeline have much in common, and lie far apart."""
_UNPACKED = ".unpacked"


def pack_code(cache: Path, path: Path) -> int:
    """Write what a cache has compiled to a file, in place of what was there; return how many entries that are.

    Args:
        cache: Root of the cache.
        path: The file.
    """
    names = sorted(
        (str(found.relative_to(cache)) for kind in KINDS for found in (cache / kind).glob("*/*")),
        key=lambda name: (name.partition("/")[0], (cache / name).stat().st_mtime),  # as they were compiled
    )
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    count = 0
    try:
        with lzma.open(beside, "wb", filters=_FILTERS) as file, tarfile.open(fileobj=file, mode="w") as archive:
            for name in names:
                if _ENTRY.fullmatch(name):
                    content = (cache / name).read_bytes()
                    member = tarfile.TarInfo(name)
                    member.size = len(content)
                    archive.addfile(member, BytesIO(content))
                    count += 1
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    return count


def unpack_code(path: Path, cache: Path) -> int:
    """Put the entries of a file into a cache; return how many were new.

    The cache verifies each entry when it is read, so a file that was damaged on its way costs time and nothing else.

    Args:
        path: The file; nothing is done if there is none, or if it is the one that was unpacked last.
        cache: Root of the cache, made if it is not there.

    Raises:
        OSError: If the cache cannot be written.
        ValueError: If the file is no archive of code; the message names it.
    """
    if not path.is_file():
        return 0
    known = f"{path.stat().st_size} {path.stat().st_mtime_ns}"
    marker = cache / _UNPACKED
    if marker.is_file() and marker.read_text() == known:
        return 0
    try:
        with lzma.open(path) as file, tarfile.open(fileobj=file, mode="r|") as archive:
            count = sum(_put(archive, member, cache) for member in archive)
    except (lzma.LZMAError, tarfile.TarError, EOFError) as error:
        raise ValueError(f"{path} is damaged ({error}): make it again with --steps compile, or remove it") from error
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.write_text(known)
    return count


def _put(archive: tarfile.TarFile, member: tarfile.TarInfo, cache: Path) -> bool:
    """Write an entry if it is one, and not there yet."""
    found = archive.extractfile(member) if _ENTRY.fullmatch(member.name) else None
    place = cache / member.name
    if found is None or place.exists():
        return False
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(found.read())
    return True
