"""Messages and exit codes of the command line for every way to end."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import TextIO

import click

from autosched.errors import AutoschedError
from autosched.settings import wants_tracebacks

FAILED = 2
INTERRUPTED = 130
"""Exit code after an interrupt, as in shells."""
PIPE_CLOSED = 141
"""Exit code after writing to a closed pipe, as in shells."""


class PipeClosed(Exception):
    """The reader of the output is gone; a class of its own, since click handles the system's error itself."""


_LONG_WORD = re.compile(r"\S{400,}")


def exit_code_of(run: Callable[[], object]) -> int:
    """Run a command and return its exit code; its errors become messages on stderr.

    With AUTOSCHED_DEBUG=1 the traceback is printed above the message.

    Args:
        run: Returns the exit code; None is 0.
    """
    _prepare_streams()
    try:
        code = run()
        if sys.stdout is not None:
            with closed_pipes():
                sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        return _failed(error)
    return code if isinstance(code, int) else 0


@contextlib.contextmanager
def closed_pipes() -> Iterator[None]:
    """Raise PipeClosed for an output pipe without a reader."""
    try:
        yield
    except BrokenPipeError as error:
        raise PipeClosed from error


def _failed(error: BaseException) -> int:
    """Print an error and return the exit code."""
    if isinstance(error, click.Abort | KeyboardInterrupt):  # click's name of an interrupt
        _tell("interrupted")
        return INTERRUPTED
    refused = _refused_output()
    if isinstance(error, PipeClosed) or isinstance(refused, BrokenPipeError):
        return PIPE_CLOSED
    with contextlib.suppress(AutoschedError):  # an invalid AUTOSCHED_DEBUG is reported as an error of its own
        if wants_tracebacks():
            _tell("".join(traceback.format_exception(error)).rstrip())
    message = _message(error) if refused is None else _output_message(refused)
    _tell(f"error: {_LONG_WORD.sub(_without_middle, message)}")
    return FAILED


def _message(error: BaseException) -> str:
    """Return the message of an error, with its remedy."""
    if isinstance(error, AutoschedError):
        return str(error)
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx is not None else "autosched"
        return f"{error.format_message().rstrip('.')}; see `{command} --help`"
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, MemoryError):
        return f"not enough memory ({error}): choose smaller sizes with --size"
    if isinstance(error, OSError):
        place = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        return f"{place}{error.strerror or error}"
    words = (str(error).strip().splitlines() or [""])[0]
    return (
        f"{type(error).__name__}: {words}; this is a mistake of autosched, please report it with the traceback that "
        "AUTOSCHED_DEBUG=1 shows"
    )


def _without_middle(word: re.Match[str]) -> str:
    return f"{word[0][:150]}...{word[0][-150:]}"


def _output_message(error: OSError) -> str:
    return (
        f"cannot write to standard output: {error.strerror or error}; free space there, or direct it to another place"
    )


def _refused_output() -> OSError | None:
    """Return the error of flushing standard output, or None; after an error the rest is dropped.

    Otherwise Python would write it again at exit, and fail again.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        with contextlib.suppress(OSError):  # not a file of the operating system
            descriptor = sys.stdout.fileno()
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)
        return error
    return None


def _prepare_streams() -> None:
    """Make all text printable: file names may have undecodable bytes, and streams may be closed."""
    for name in ("stdout", "stderr"):
        stream: TextIO | None = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open while the program runs
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _tell(text: str) -> None:
    try:
        click.echo(text, err=True)
    except OSError as error:  # stderr is full or closed: nothing can be reported
        if error.errno not in (errno.ENOSPC, errno.EPIPE, errno.EIO, errno.EBADF):
            raise
