"""The C compilers of this machine."""

from __future__ import annotations

import shutil
from pathlib import Path


def installed_compilers() -> list[str]:
    """Return commands of gcc and clang, each program once."""
    names = [f"{family}{version}" for family in ("gcc", "clang") for version in ("", *(f"-{n}" for n in range(9, 30)))]
    found: dict[Path, str] = {}
    for name in names:
        program = shutil.which(name)
        if program is not None:
            found.setdefault(Path(program).resolve(), name)
    return list(found.values())
