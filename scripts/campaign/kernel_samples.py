"""Small problems and schedules with kernels of every kind, drawn once and kept beside the results."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosched.errors import AutoschedError
from autosched.measure.job import Job
from autosched.measure.problem import Problem
from autosched.random_pipelines.settings import RandomPipelineSettings
from autosched.target import Target
from campaign.context import Context
from campaign.options import Options
from campaign.problems import SMALL, app_names, problem_of, target_of
from campaign.schedule_coverage import Sample, covering, drawn_samples
from campaign.worker_pool import Lost, do_parts

KINDS_FILE = "kinds.json.gz"
_TINY: Mapping[str, Any] = {
    "stages": (1, 3), "extents": (16, 48), "channels": (1, 8), "max_points": 1 << 14, "max_operations": 1 << 21,
}  # fmt: skip
RANDOM: Mapping[str, Mapping[str, Any]] = {
    "time loop": {"families": {"time_loops": 1.0}},
    "rows": {"families": {"row_statistics": 1.0}},
    "recurrence": {"families": {"recurrences": 1.0}},
    "window": {"families": {"wide_windows": 1.0}},
    "bfloat16": {"dtypes": {"bfloat16": 1.0}},
    "scatter": {"kinds": {"grid_scatter": 1.0, "histogram": 1.0}, "stages": (1, 2)},
}
"""Settings of random problems with kernels that few apps have."""
SEEDS = 2
"""Random problems of each kind."""
_LIMIT_S = 120.0


@dataclass(frozen=True)
class SampleDrawer:
    """Draws the schedules of a problem in a worker process.

    Attributes:
        target: Target of the schedules.
    """

    target: Target

    def draw(self, problem: tuple[str, str]) -> list[Sample]:
        """Return schedules of a problem, given by its name and text."""
        name, text = problem
        try:
            return list(drawn_samples(name, Problem.parse(text), self.target))
        except AutoschedError:  # no pipeline of this seed is within the limits
            return []


def problems_to_sample(options: Options) -> dict[str, Problem]:
    """Return small problems by name: every app, and random ones where all apps are chosen."""
    problems = {app: problem_of(app, SMALL) for app in app_names(options)}
    if not options.apps:
        for name, changes in RANDOM.items():
            settings = RandomPipelineSettings(**{**_TINY, **changes})
            problems |= {f"{name} {seed}": Problem.random(seed, settings) for seed in range(SEEDS)}
    return problems


def samples_for(context: Context, until: float) -> list[Sample]:
    """Return schedules with kernels of every kind: those kept beside the results, or new ones, which are kept.

    Args:
        context: The step.
        until: End of drawing, by `time.monotonic`; incomplete samples are not kept.

    Raises:
        ValueError: If the file is damaged.
    """
    path, target = context.options.out_path / KINDS_FILE, target_of(context.options)
    problems = problems_to_sample(context.options)
    kept = [s for s in read_samples_of_kinds(path) if s.name.rpartition("/")[0] in problems and _is_legal(s, target)]
    if kept:
        return kept
    drawn: dict[str, list[Sample]] = {}
    for name, found in do_parts(
        SampleDrawer(target), "draw", [(name, (name, p.text())) for name, p in problems.items()],
        processes=context.options.processes, limit_s=_LIMIT_S, deadline=until,
    ):  # fmt: skip
        drawn[name] = [] if isinstance(found, Lost) else found
    chosen = covering(s for name in problems for s in drawn.get(name, ()))
    if len(drawn) == len(problems):
        write_samples_of_kinds(path, chosen)
    return chosen


def read_samples_of_kinds(path: Path) -> list[Sample]:
    """Return the samples of a file; none if it is missing.

    Raises:
        ValueError: If it is damaged; the message names it.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return [Sample(n, p, s, frozenset(kinds)) for n, p, s, kinds in json.load(file)]
    except FileNotFoundError:
        return []
    except (OSError, EOFError, ValueError, TypeError) as error:
        raise ValueError(f"{path} is damaged ({error}): remove it, and the samples are drawn anew") from error


def write_samples_of_kinds(path: Path, samples: list[Sample]) -> None:
    """Replace a file by samples."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with gzip.open(beside, "wt", encoding="utf-8") as file:
            json.dump([(s.name, s.problem, s.schedule, sorted(s.kinds)) for s in samples], file)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _is_legal(sample: Sample, target: Target) -> bool:
    """Return whether a kept schedule is one of the installed version's."""
    try:
        Job(Problem.parse(sample.problem), sample.schedule, target).read_schedule()
    except AutoschedError:
        return False
    return True
