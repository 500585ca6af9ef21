"""The names of a candidate's kernels in errors, in place of the canonical names of its functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from autosched.errors import CompileError, LaunchError


@contextmanager
def own_kernel_names(names: Mapping[str, str]) -> Iterator[None]:
    """Raise errors of compilers and launches with the names of kernels in place of those of functions.

    Args:
        names: Names of kernels by name of their function (`autosched.codegen.identical_kernels`).

    Raises:
        CompileError: With other names in message, source and log.
        LaunchError: With other names in the message.
    """
    try:
        yield
    except (CompileError, LaunchError) as error:
        error.args = tuple(_renamed(a, names) if isinstance(a, str) else a for a in error.args)
        if isinstance(error, CompileError):
            error.source, error.log = _renamed(error.source, names), _renamed(error.log, names)
        raise


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """Return a text with other names; a text in which a name is part of a longer one keeps that."""
    if not names:
        return text
    pattern = "|".join(map(re.escape, names))
    return re.sub(rf"\b({pattern})\b", lambda match: names[match[1]], text)
