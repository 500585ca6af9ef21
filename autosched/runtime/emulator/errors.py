"""Errors of the emulator: undefined behaviour of a generated kernel."""

from __future__ import annotations

from enum import Enum

from autosched.errors import AutoschedError

Index3 = tuple[int, int, int]
"""A block or thread index as (x, y, z)."""


class ErrorKind(Enum):
    """Kind of error; the values are those of ``as_error_kind`` in ``abi.h``."""

    OUT_OF_BOUNDS = 1
    UNINITIALISED_READ = 2
    RACE = 3
    WRITE_CONFLICT = 4
    DIVERGENT_BARRIER = 5
    SHARED_SIZE = 6
    OUT_OF_MEMORY = 7
    TOO_MANY_BARRIERS = 8
    MISALIGNED = 9
    ABSENT_LANE = 10


_MESSAGES = {
    ErrorKind.OUT_OF_BOUNDS: "{buffer}[{index}] is out of bounds",
    ErrorKind.UNINITIALISED_READ: "{buffer}[{index}] is read before anything was written there",
    ErrorKind.RACE: "race on {buffer}[{index}]: no barrier orders this access and the one of {other}",
    ErrorKind.WRITE_CONFLICT: "{buffer}[{index}] is written by this thread and by {other}",
    ErrorKind.DIVERGENT_BARRIER: "the barrier is not reached by {other}, which {elsewhere}",
    ErrorKind.SHARED_SIZE: "{buffer} ends at byte {index} of shared memory, beyond the bytes of the launch",
    ErrorKind.OUT_OF_MEMORY: "the emulator ran out of memory",
    ErrorKind.TOO_MANY_BARRIERS: "a block passes more barriers than the emulator can count",
    ErrorKind.MISALIGNED: "a vector begins at {buffer}[{index}], which is no multiple of its length",
    ErrorKind.ABSENT_LANE: "the shuffle is not reached by {other}, which {elsewhere}",
}


class EmulatorError(AutoschedError):
    """A kernel was stopped because its behaviour is undefined.

    Args:
        kind: Kind of error.
        kernel: Name of the kernel.
        block: Index of the block.
        thread: Index of the thread within its block.
        line: Line of the generated text (without prelude), from 1; 0 if unknown.
        source: The text of that line.
        buffer: Name of the buffer accessed, empty if none was.
        index: Element accessed, -1 if none was; for SHARED_SIZE the buffer's end in bytes.
        other_thread: The second thread of a race, conflict or divergence, if it is one thread of the same block.
        other_line: For DIVERGENT_BARRIER and ABSENT_LANE the line of the barrier or shuffle at which the other thread
            waits; 0 if it returned.
    """

    def __init__(
        self,
        kind: ErrorKind,
        *,
        kernel: str,
        block: Index3,
        thread: Index3,
        line: int,
        source: str = "",
        buffer: str = "",
        index: int = -1,
        other_thread: Index3 | None = None,
        other_line: int = 0,
    ) -> None:
        self.kind = kind
        self.kernel = kernel
        self.block = block
        self.thread = thread
        self.line = line
        self.source = source
        self.buffer = buffer
        self.index = index
        self.other_thread = other_thread
        self.other_line = other_line
        message = _MESSAGES[kind].format(
            buffer=buffer,
            index=index,
            other="other threads" if other_thread is None else f"thread {other_thread}",
            elsewhere=_elsewhere(other_thread, other_line),
        )
        where = f"  --> {kernel}, block {block}, thread {thread}, line {line}"
        super().__init__("\n".join([message, where] + ([f"   |  {source}"] if source else [])))


def _elsewhere(thread: Index3 | None, line: int) -> str:
    """Return the description of the line at which the other thread waits."""
    if thread is None:
        return "do not take part"
    return f"waits at line {line}" if line else "has returned"
