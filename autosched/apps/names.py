"""Suggestions for messages about unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """Return the nearest valid name as a question, followed by all valid names."""
    names = sorted(valid)
    close = difflib.get_close_matches(name, names, n=1)
    question = f"did you mean {close[0]!r}? " if close else ""
    return f"{question}there is {', '.join(names)}" if names else "there are none"
