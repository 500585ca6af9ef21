"""Results in a few small files, to copy them from a machine that gives back little, and to take them in elsewhere."""

from __future__ import annotations

import io
import lzma
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

from campaign.cubin_bundle import CODE_FILE
from campaign.files import DRAWN_FILE

PIECE_BYTES = 15 << 20
MOST_PIECES = 8
_STEM = "campaign-results"
_LEFT_OUT = (CODE_FILE, DRAWN_FILE)
"""Files that a campaign reads and does not change."""
_PRESET = 3


def export_results(out: Path, directory: Path) -> list[Path]:
    """Pack the results of a directory into files of limited size; return the files, in order.

    Args:
        out: Directory of the results.
        directory: Directory of the files, created if missing; older ones of this kind are replaced.

    Raises:
        ValueError: If there are more files than `MOST_PIECES`.
    """
    packed = io.BytesIO()
    with lzma.open(packed, "wb", preset=_PRESET) as file, tarfile.open(fileobj=file, mode="w") as archive:
        for path in _results(out):
            archive.add(path, str(path.relative_to(out)), recursive=False)
    content = packed.getvalue()
    pieces = [content[k : k + PIECE_BYTES] for k in range(0, len(content), PIECE_BYTES)]
    if len(pieces) > MOST_PIECES:
        raise ValueError(
            f"the results of {out} take {len(content) / (1 << 20):.0f} MiB, more than {MOST_PIECES} files of "
            f"{PIECE_BYTES >> 20} MiB: move samples that were copied before to another directory"
        )
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob(f"{_STEM}-*.tar.xz"):
        old.unlink()
    paths = [directory / f"{_STEM}-{k + 1}-of-{len(pieces)}.tar.xz" for k in range(len(pieces))]
    for path, piece in zip(paths, pieces, strict=True):
        path.write_bytes(piece)
    return paths


def import_results(directory: Path, out: Path) -> int:
    """Unpack files of `export_results`, replacing older results; return the number of files.

    Args:
        directory: Directory of the files.
        out: Directory of the results, created if missing.

    Raises:
        ValueError: If files are missing or damaged.
    """
    paths = sorted(directory.glob(f"{_STEM}-*-of-*.tar.xz"))
    wanted = int(paths[0].name.removesuffix(".tar.xz").rpartition("-")[2]) if paths else 1
    if len(paths) != wanted:
        raise ValueError(f"{directory} has {len(paths)} of {wanted} files {_STEM}-*.tar.xz: copy all of them there")
    content = io.BytesIO(b"".join(path.read_bytes() for path in paths))
    count = 0
    try:
        with lzma.open(content) as file, tarfile.open(fileobj=file, mode="r|") as archive:
            for member in archive:
                found = archive.extractfile(member) if member.isfile() and _is_inside(member.name) else None
                if found is not None:
                    _replace(out / member.name, found.read())
                    count += 1
    except (lzma.LZMAError, tarfile.TarError, EOFError) as error:
        raise ValueError(f"{paths[0]} is damaged ({error}): copy it again") from error
    return count


def _results(out: Path) -> Iterator[Path]:
    for path in sorted(out.rglob("*")):
        if path.is_file() and path.name not in _LEFT_OUT and not path.name.startswith("."):
            yield path


def _is_inside(name: str) -> bool:
    return not name.startswith("/") and ".." not in Path(name).parts


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(content)
    os.replace(beside, path)
