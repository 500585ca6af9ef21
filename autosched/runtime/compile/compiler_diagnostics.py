"""A compiler's messages beside the generated lines that they refer to."""

from __future__ import annotations

import re
from collections.abc import Iterable

from autosched.errors import CompileError

CONTEXT_LINES = 3
"""Lines of source shown before and after the first error."""

# NVRTC writes "blur.cu(12): error: ...", gcc and clang write "blur.c:12:5: error: ..."
_ERROR_LINE = r"^{file}(?:\((\d+)\): (?:catastrophic )?error|:(\d+):(?:\d+:)? (?:fatal )?error:)"


def first_error_line(log: str, file_name: str) -> int | None:
    """Return the line number, from 1, of a log's first error in `file_name`."""
    match = re.search(_ERROR_LINE.format(file=re.escape(file_name)), log, re.MULTILINE)
    return int(match[1] or match[2]) if match else None


def source_excerpt(source: str, line: int, context: int = CONTEXT_LINES) -> str:
    """Return the lines of `source` around `line` (from 1) with their numbers, that line marked."""
    lines = source.splitlines()
    first, last = max(1, line - context), min(len(lines), line + context)
    width = len(str(last))
    return "\n".join(
        f"{'>' if number == line else ' '} {number:{width}} | {lines[number - 1]}" for number in range(first, last + 1)
    )


def refused_source(compiler: str, file_name: str, source: str, log: str, options: Iterable[str]) -> CompileError:
    """Return the error for generated source that a compiler refused.

    Args:
        compiler: Name and version of the compiler.
        file_name: Name of the source in the log.
        source: The whole generated text.
        log: The compiler's output.
        options: The compiler's options.
    """
    message = f"{compiler} refused the generated source {file_name} (options: {' '.join(options)})"
    line = first_error_line(log, file_name)
    if line is not None:
        message = f"{message}\n{source_excerpt(source, line)}"
    return CompileError(message, source=source, log=log)
