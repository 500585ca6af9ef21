"""The pipelines whose schedules a campaign measures."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from autosched.measure.problem import Problem, interleave_evenly
from autosched.random_pipelines.settings import FAMILY_WEIGHTS, RandomPipelineSettings
from campaign.options import Options
from campaign.problems import app_names

GENERAL: Mapping[str, Any] = {}
USERS: Mapping[str, Any] = {
    "stages": (1, 8), "extents": (64, 4096), "channels": (1, 1024), "max_operations": 2_000_000_000,
    "families": {**FAMILY_WEIGHTS, "row_statistics": 2.0, "wide_windows": 2.0, "time_loops": 2.0},
}  # fmt: skip
"""Programs in the manner of users: rows, long windows and time loops twice as often as other families."""
VOLUMES: Mapping[str, Any] = {
    "stages": (1, 12), "ranks": (3,), "extents": (64, 320), "channels": (1, 4), "max_points": 1 << 25,
    "kinds": {"fluxes": 3.0, "gradient": 2.0, "time_step": 2.0, "elementwise": 1.0, "separable": 0.7, "blend": 0.5},
    "dtypes": {"float32": 3.0, "float64": 1.0},
}  # fmt: skip
"""Stencils, most of them of volumes."""
GROUPS = (GENERAL, USERS, VOLUMES)
"""Settings of random pipelines; seeds take them in rotation."""


def random_problem(seed: int, options: Options) -> Problem:
    """Return the random pipeline of a seed."""
    settings = options.pipeline_settings or GROUPS[seed % len(GROUPS)]
    return Problem.random(seed, RandomPipelineSettings(**settings))


def problems_of(options: Options) -> Iterator[Problem]:
    """Yield the pipelines to measure: apps at the papers' sizes, spread evenly among random ones; then random ones."""
    seeds = range(options.first, options.first + options.pipelines)
    apps = app_names(options)
    small = options.sizes == ("small",)
    yield from interleave_evenly(
        [random_problem(seed, options) for seed in seeds], [Problem.app(app, small=small) for app in apps]
    )
    yield from (random_problem(seed, options) for seed in itertools.count(seeds.stop))
