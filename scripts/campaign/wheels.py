"""Packages that a machine without network lacks, from wheels in a directory."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path


def unpack_wheels(wheels: Path, directory: Path) -> list[str]:
    """Unpack all wheels of a directory into another one, from which their packages are imported; return their names.

    Args:
        wheels: Directory of ``*.whl`` files, as `pip download` leaves them.
        directory: Created; existing contents are replaced.

    Raises:
        ValueError: If there is no wheel, or one is damaged; the message names it.
    """
    paths = sorted(wheels.glob("*.whl"))
    if not paths:
        raise ValueError(f"{wheels} has no wheels: fill it with `pip download --no-deps`, or leave --wheels out")
    shutil.rmtree(directory, ignore_errors=True)
    for path in paths:
        try:
            with zipfile.ZipFile(path) as archive:
                archive.extractall(directory)
        except (zipfile.BadZipFile, OSError) as error:
            raise ValueError(f"{path} cannot be unpacked ({error}): download it again") from error
    return [path.name.partition("-")[0] for path in paths]
