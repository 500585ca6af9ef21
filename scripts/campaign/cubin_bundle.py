"""Compiled code in one file, to move the compiler cache from one machine to another."""

from __future__ import annotations

import lzma
import math
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
"""Large dictionary: kernels of one pipeline are similar but far apart in the file."""
_UNPACKED = ".unpacked"
_BUFFERED_BYTES = 1 << 20
"""Compressed bytes that the compressor may hold back."""


def pack_code(cache: Path, path: Path, most_bytes: int | None = None) -> int:
    """Write the compiled entries of a cache to a file, replacing it; return the number of entries.

    Args:
        cache: Root of the cache.
        path: The file.
        most_bytes: Size of the file beyond which the entries compiled last are left out.
    """
    names = sorted(
        (str(found.relative_to(cache)) for kind in KINDS for found in (cache / kind).glob("*/*")),
        key=lambda name: (name.partition("/")[0], (cache / name).stat().st_mtime),  # in order of compilation
    )
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    room = math.inf if most_bytes is None else most_bytes - _BUFFERED_BYTES
    count = 0
    try:
        with (
            beside.open("wb") as packed,
            lzma.open(packed, "wb", filters=_FILTERS) as file,
            tarfile.open(fileobj=file, mode="w") as archive,
        ):
            for name in names:
                if packed.tell() > room:
                    break
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
    """Add the entries of a file to a cache; return the number of new entries.

    The cache verifies each entry on read, so a damaged file costs only time.

    Args:
        path: The file; skipped if missing, or if it is the last one unpacked.
        cache: Root of the cache, created if missing.

    Raises:
        OSError: If the cache cannot be written.
        ValueError: If the file is not an archive of code; the message names it.
    """
    if not path.is_file():
        return 0
    stamp = f"{path.stat().st_size} {path.stat().st_mtime_ns}"
    marker = cache / _UNPACKED
    if marker.is_file() and marker.read_text() == stamp:
        return 0
    try:
        with lzma.open(path) as file, tarfile.open(fileobj=file, mode="r|") as archive:
            count = sum(_put(archive, member, cache) for member in archive)
    except (lzma.LZMAError, tarfile.TarError, EOFError) as error:
        raise ValueError(f"{path} is damaged ({error}): recreate it with --steps compile, or remove it") from error
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.write_text(stamp)
    return count


def _put(archive: tarfile.TarFile, member: tarfile.TarInfo, cache: Path) -> bool:
    """Write an archive member that is a valid entry and not in the cache yet; return whether it was written."""
    found = archive.extractfile(member) if _ENTRY.fullmatch(member.name) else None
    place = cache / member.name
    if found is None or place.exists():
        return False
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(found.read())
    return True
