"""The end of a message about a name that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the nearest known name as a question, followed by all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    question = f"did you mean {close[0]!r}? " if close else ""
    return f"{question}there is {', '.join(names)}" if names else "there are none"
