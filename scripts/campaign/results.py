"""Results of the steps, by part, in one file."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from campaign.files import read_json, write_json

Part = dict[str, Any]
TOO_LITTLE = "too little"
"""Key in a part of training: the reason why the model is missing."""

_LEAST_SHARE_OF_WORK = 20
"""Inverse of the largest share of time spent on writing the file after each part."""


class Results:
    """Parts of steps by name, in a JSON file with one writer at a time.

    Args:
        path: The file; created with the first part.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._parts: dict[str, dict[str, Part]] = read_json(path, {})
        self._written = -math.inf
        self._cost = 0.0
        self._changed = False

    def parts(self, step: str) -> Mapping[str, Part]:
        """Return the parts of a step."""
        return self._parts.get(step, {})

    def record(self, step: str, name: str, part: Part) -> None:
        """Add or replace a part; the file is updated at once unless writing is slow."""
        self._parts.setdefault(step, {})[name] = _finite(part)
        self._changed = True
        if time.monotonic() - self._written >= _LEAST_SHARE_OF_WORK * self._cost:
            self.flush()

    def flush(self) -> None:
        """Write pending parts."""
        if self._changed:
            started = time.monotonic()
            write_json(self.path, self._parts)
            self._written = time.monotonic()
            self._cost = self._written - started
            self._changed = False


def _finite(value: Any) -> Any:
    """Return a value with None for numbers that JSON cannot represent."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value
