"""Atomic replacement of files, without `autosched`: the command must start where none of its packages is installed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

DRAWN_FILE = "drawn.json.gz"
"""File of schedules drawn ahead of time (`campaign.precomputed_schedules`)."""


def write_text(path: Path, text: str) -> None:
    """Replace a file by a text; its directory is created if missing."""
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
    """Return the value of a file written by `write_json`, or a default if it is missing.

    Raises:
        ValueError: If the file is not JSON; the message names it.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return default
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}): delete it, or restore it from a backup") from error
