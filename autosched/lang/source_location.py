"""Locations of definitions in the user's source."""

from __future__ import annotations

import linecache
import os
import sys
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_APPS = _PACKAGE + "apps" + os.sep


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A line of user code."""

    file: str
    line: int

    @property
    def text(self) -> str:
        """The stripped line; empty when the source cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def caller_location() -> SourceLocation | None:
    """Return the innermost frame outside the package; the shipped apps count as user code."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        inside = file.startswith(_PACKAGE) and not file.startswith(_APPS)
        if not inside and not file.startswith("<"):
            return SourceLocation(file, frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return None
