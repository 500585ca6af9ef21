"""Exceptions raised on purpose; every message names the thing that is wrong and the way out."""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from autosched.lang.source_location import SourceLocation


_SHOWN = 80
"""Characters of a value in a message, about."""


class AutoschedError(Exception):
    """Base of every error this library raises on purpose."""


class DSLError(AutoschedError):
    """A pipeline is written wrongly (types, names, definitions).

    Args:
        message: One sentence that names the thing.
        location: The user's line that caused it, if known.
        hint: How to get out of it.
    """

    def __init__(self, message: str, *, location: SourceLocation | None = None, hint: str | None = None) -> None:
        self.message = message
        self.location = location
        self.hint = hint
        super().__init__(render(message, location, hint))


class BoundsError(DSLError):
    """An access leaves an input's domain once shapes are known."""


class InputError(AutoschedError):
    """A value given by the caller (array, shape, parameter, file) does not fit."""


class ScheduleError(AutoschedError):
    """A schedule is malformed, belongs to another pipeline, or is illegal for shapes or target."""


class CompileError(AutoschedError):
    """A compiler refused generated code, or no compiler is there; carries source and log."""

    def __init__(self, message: str, *, source: str = "", log: str = "") -> None:
        self.source = source
        self.log = log
        super().__init__(message if not log else f"{message}\n{log}")


class LaunchError(AutoschedError):
    """A compiled kernel could not be launched."""


class CacheError(AutoschedError):
    """The on-disk cache cannot be used."""


class MeasureError(AutoschedError):
    """Candidates cannot be measured at all: no worker starts, or the results have no place to go."""


class DeviceLostError(LaunchError):
    """A kernel left its process unable to use the device, as an illegal memory access does."""


class DatabaseError(AutoschedError):
    """A results database cannot be opened, read or written."""


class SearchWarning(UserWarning):
    """The search for a schedule failed inside, and the schedule of another strategy is used instead.

    Results are right all the same; the schedule may be slower than it could be.

    Args:
        error: What the search raised.
        seed: Seed of the search.
        path: File with the pipeline, its shapes and the traceback, to attach to a report.
        used: Strategy whose schedule is used.
    """

    def __init__(self, error: Exception, seed: int, path: Path, used: str) -> None:
        self.error = error
        self.seed = seed
        self.path = path
        self.used = used
        super().__init__(
            f"the search failed with {type(error).__name__}: {error} (seed {seed}); the schedule is that of strategy "
            f"{used!r}. Please report this, with the file {path}, which holds the pipeline"
        )


def render(message: str, location: SourceLocation | None, hint: str | None) -> str:
    """Return the message with the user's source line under it and a hint line last."""
    lines = [message]
    if location is not None:
        lines.append(f"  --> {location.file}:{location.line}")
        if location.text:
            lines.append(f"   |  {location.text}")
    if hint:
        lines.append(f"Hint: {hint}")
    return "\n".join(lines)


def shortened(value: object) -> str:
    """Return a value as Python writes it, without the middle of a long one, for messages."""
    return _Short().repr(value)


class _Short(reprlib.Repr):
    """Python's form without the middle of long values; whole numbers of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = _SHOWN

    def repr_int(self, x: int, level: int) -> str:
        """Return a whole number, of which Python refuses to write thousands of digits."""
        return super().repr_int(x, level) if x.bit_length() < 1 << 13 else f"a number of {x.bit_length()} bits"
