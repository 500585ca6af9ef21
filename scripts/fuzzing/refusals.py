"""Reasons of refusals, without program-specific names and numbers."""

from __future__ import annotations

import re

_QUOTED = re.compile(r"'[^']*'")
_NUMBER = re.compile(r"-?\b\d[\d_.e+-]*")
_NAME = re.compile(r"\b[afghprs]\d+(_\w+)?\b")
_MOST = 120


def reason(error: BaseException) -> str:
    """Return the class of an error and the start of its first line, with ``_`` for names and numbers."""
    lines = str(error).splitlines() or [""]
    text = _NUMBER.sub("_", _NAME.sub("_", _QUOTED.sub("'_'", lines[0])))
    return f"{type(error).__name__}: {text[:_MOST]}"
