"""Exceptions of the library; every message names the cause and the way out."""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from autosched.lang.source_location import SourceLocation


_SHOWN = 80
"""Approximate limit of a value in a message, in characters."""


class AutoschedError(Exception):
    """Base of every error this library raises on purpose."""


class DSLError(AutoschedError):
    """A pipeline definition is invalid (types, names, definitions).

    Args:
        message: One sentence that names the object and the rule.
        location: The user's line that caused it, if known.
        hint: The way out.
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
    """A compiler rejected generated code, or there is no compiler; has source and log."""

    def __init__(self, message: str, *, source: str = "", log: str = "") -> None:
        self.source = source
        self.log = log
        super().__init__(message if not log else f"{message}\n{log}")


class LaunchError(AutoschedError):
    """A compiled kernel could not be launched."""


class CacheError(AutoschedError):
    """The on-disk cache cannot be used."""


class MeasureError(AutoschedError):
    """Candidates cannot be measured: no worker starts, or results cannot be stored."""


class DeviceLostError(LaunchError):
    """The device is lost to the process after a failed kernel, such as an illegal memory access."""


class DatabaseError(AutoschedError):
    """A results database cannot be opened, read or written."""


class SearchWarning(UserWarning):
    """An internal error of the search; the schedule of another strategy is used instead.

    Results are correct, but the schedule may be slower.

    Args:
        error: The internal error.
        seed: Seed of the search.
        path: File with the pipeline, its shapes and the traceback, to attach to a report.
        used: The other strategy.
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
    """Return the repr of a value for messages, without the middle of a long one."""
    return _Short().repr(value)


class _Short(reprlib.Repr):
    """Shortened reprs, also of integers of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = _SHOWN

    def repr_int(self, x: int, level: int) -> str:
        """Return an integer; Python does not convert thousands of digits."""
        return super().repr_int(x, level) if x.bit_length() < 1 << 13 else f"a number of {x.bit_length()} bits"
