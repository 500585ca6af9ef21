"""Schedules of a time loop as JSON: the schedule of each version with its time."""

from __future__ import annotations

import math
import os
from pathlib import Path

from autosched.atomic_files import replacement_of
from autosched.errors import InputError
from autosched.iteration.protocol import ScheduledSteps
from autosched.schedule.io.serialise import TIME_LOOP_FORMAT, to_document
from autosched.schedule.io.strict_json import indented

VERSION = 1
"""Incremented whenever this release would misread files of the last version."""


def save_versions(path: str | os.PathLike[str], scheduled: ScheduledSteps) -> None:
    """Write all schedules of a time loop to a file, atomically.

    Raises:
        InputError: If the path cannot be written.
    """
    content = indented(to_versions_document(scheduled)).encode()
    try:
        file = Path(path)
        if file.exists() and not file.is_file():
            raise OSError("it exists and is no file")
        with replacement_of(file) as beside:
            beside.write_bytes(content)
    except (OSError, ValueError) as e:
        raise InputError(f"cannot write the schedules to {path}: {e}; choose another path") from e


def to_versions_document(scheduled: ScheduledSteps) -> dict[str, object]:
    """Return the JSON document of a time loop's schedules as plain data."""
    update = scheduled.update
    return {
        "format": TIME_LOOP_FORMAT,
        "version": VERSION,
        "step": update.step.hash,
        "name": update.name,
        "target": scheduled.target.name,
        "fields": dict(update.fields),
        "by_step": list(update.by_step),
        "stop": scheduled.stop,
        "versions": [
            {
                "steps": v.steps,
                "seconds": None if math.isnan(v.seconds) else v.seconds,
                "source": v.source,
                "schedule": to_document(v.scheduled.bound, v.scheduled.schedule),
            }
            for v in scheduled.versions
        ],
    }
