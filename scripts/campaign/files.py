"""Files that are replaced whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> None:
    """Write a file beside and rename it, so that a reader, and the next call after a kill, sees the old or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON; see `write_text`."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False))


def read_json(path: Path, default: Any) -> Any:
    """Return the value of a file that `write_json` wrote, or a default if there is none.

    Raises:
        ValueError: If it is no JSON; the message names the file.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return default
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}): delete it, or take it back from where it was saved") from error
