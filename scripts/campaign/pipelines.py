"""The pipelines whose schedules a campaign measures."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from autosched.measure.problem import Problem, interleave_evenly
from autosched.random_pipelines.settings import RandomPipelineSettings
from campaign.options import Options
from campaign.problems import app_names


def problems_of(options: Options) -> Iterator[Problem]:
    """Yield the pipelines to measure: apps at the papers' sizes, spread evenly among random ones; then random ones."""
    settings = RandomPipelineSettings(**options.pipeline_settings)  # type: ignore[arg-type]
    seeds = range(options.first, options.first + options.pipelines)
    apps = app_names(options)
    small = options.sizes == ("small",)
    yield from interleave_evenly(
        [Problem.random(seed, settings) for seed in seeds], [Problem.app(app, small=small) for app in apps]
    )
    yield from (Problem.random(seed, settings) for seed in itertools.count(seeds.stop))
