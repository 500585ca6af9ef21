"""What the steps found, part by part, in one file."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from campaign.files import read_json, write_json

Part = dict[str, Any]
TOO_LITTLE = "too little"
"""Says in a part of training why there is no such model yet."""

_LEAST_SHARE_OF_WORK = 20
"""Writing the whole file after each part may take one part in that many of the time."""


class Results:
    """Parts of steps by name, kept in a JSON file that one process writes at a time.

    Args:
        path: The file; made at the first part.
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
        """Add a part, or put it in place of an older one. It is in the file at once unless writing takes long."""
        self._parts.setdefault(step, {})[name] = _finite(part)
        self._changed = True
        if time.monotonic() - self._written >= _LEAST_SHARE_OF_WORK * self._cost:
            self.flush()

    def flush(self) -> None:
        """Write what is not in the file yet."""
        if self._changed:
            started = time.monotonic()
            write_json(self.path, self._parts)
            self._written = time.monotonic()
            self._cost = self._written - started
            self._changed = False


def _finite(value: Any) -> Any:
    """Return a value with None for numbers that JSON has no way to write."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value
