"""Read the schedules of a time loop from a file; reading is strict."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from autosched.api import as_target
from autosched.errors import InputError, ScheduleError
from autosched.iteration.deep_tuning import timed_version
from autosched.iteration.field_update import FieldUpdate
from autosched.iteration.scheduled_time_loop import ScheduledTimeLoop
from autosched.iteration.version_files import VERSION
from autosched.lang.expr import Scalar
from autosched.plural import counted
from autosched.schedule.io.serialise import LARGEST_FILE, TIME_LOOP_FORMAT, from_json
from autosched.schedule.io.strict_json import parse
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.target import Target


def load_versions(
    path: str | os.PathLike[str],
    update: FieldUpdate,
    shapes: Mapping[str, Sequence[int]],
    target: str | Target,
    params: Mapping[str, Scalar] | None = None,
) -> ScheduledTimeLoop:
    """Return a time loop with the schedules of a file; see `TimeLoop.load`."""
    try:
        content = Path(path).read_bytes()
        text = content.decode("utf-8-sig")
    except (OSError, ValueError) as e:
        raise InputError(f"cannot read the schedules {path}: {e}; name a file of ScheduledTimeLoop.save") from e
    if len(content) > LARGEST_FILE:
        raise InputError(f"{path} has more than {LARGEST_FILE >> 20} MiB, so it has no schedules of a time loop")
    parse(text, str(path))  # refuses duplicate keys and numbers out of range
    return _Reader(str(path), update).read(json.loads(text), shapes, as_target(target), params)


class _Reader:
    """Reads a file of schedules for a time loop.

    Args:
        path: The file, for messages.
        update: One step.
    """

    def __init__(self, path: str, update: FieldUpdate) -> None:
        self._path, self._update = path, update

    def read(
        self, document: Any, shapes: Mapping[str, Sequence[int]], target: Target, params: Mapping[str, Scalar] | None
    ) -> ScheduledTimeLoop:  # fmt: skip
        update = self._update
        if not isinstance(document, dict) or document.get("format") != TIME_LOOP_FORMAT:
            self._refuse("is no file of schedules of a time loop")
        if document.get("version") != VERSION:
            self._refuse(f"has version {document.get('version')!r}, this release reads {VERSION}")
        own = update.step.hash, dict(update.fields), list(update.by_step)
        if own != tuple(document.get(key) for key in ("step", "fields", "by_step")):
            self._refuse(f"was made for another step than {update.name!r}, or for other fields")
        made_for = document.get("target", target.name)  # files of earlier releases have none
        if made_for != target.name:
            raise ScheduleError(
                f"{self._path} was made for target {made_for!r}, not for {target.name!r}; load it for the former, or "
                "make a new one with ScheduledTimeLoop.save"
            )
        entries = document.get("versions")
        if not isinstance(entries, list) or not entries:
            self._refuse("has no versions")
        checked = update.check_shapes(shapes, params)
        versions = []
        for k, entry in enumerate(entries, 1):
            keys = {"steps": int, "seconds": float | int | None, "source": str, "schedule": dict}
            if not isinstance(entry, dict) or any(not isinstance(entry.get(n), kind) for n, kind in keys.items()):
                self._refuse(f"has a version {k} that is none")
            if entry["steps"] != k:
                self._refuse(f"has a version of {counted(entry['steps'], 'step')} where that of {k} belongs")
            if entry["seconds"] is not None and not 0 < entry["seconds"] < math.inf:
                self._refuse(f"has a version of {counted(k, 'step')} that takes {entry['seconds']} seconds")
            unrolled = update.unrolled(k)
            values = {n: v for n, v in (params or {}).items() if any(n == p.name for p in unrolled.pipeline.params)}
            bound = update.bind(k, checked, params)
            schedule = from_json(json.dumps(entry["schedule"]), bound, f"{self._path}: version {k}")
            pipeline = ScheduledPipeline(bound, schedule, target, values)
            seconds = math.nan if entry["seconds"] is None else float(entry["seconds"])
            versions.append(timed_version(unrolled, pipeline, seconds, entry["source"]))
        return ScheduledTimeLoop(update, checked, tuple(versions), str(document.get("stop", "")))

    def _refuse(self, reason: str) -> NoReturn:
        raise ScheduleError(f"{self._path} {reason}; make a new one with ScheduledTimeLoop.save")
