"""Schedules worth measuring, drawn in processes of their own: that takes longer than measuring does."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass

from autosched.errors import AutoschedError
from autosched.measure.keys import schedule_text
from autosched.measure.problem import Problem
from autosched.random_pipelines.settings import RandomPipelineSettings
from autosched.search.candidates import Candidates, Mix
from autosched.target import Target
from campaign.options import Options
from campaign.problems import app_names

LONGEST_DRAW_S = 45.0
"""A pipeline is measured with what was drawn until then."""


@dataclass(frozen=True)
class Drawn:
    """Schedules of a problem.

    Attributes:
        schedules: Kind and JSON of each, the baseline first.
        note: Why there are not as many as asked for, if a search failed.
    """

    schedules: tuple[tuple[str, str], ...]
    note: str = ""


@dataclass(frozen=True)
class Drawer:
    """Draws schedules.

    Attributes:
        target: What for.
        mix: How many of each kind.
    """

    target: Target
    mix: Mix

    def draw(self, problem_text: str) -> Drawn:
        """Return the schedules of a problem."""
        bound = Problem.parse(problem_text).bind()
        found: list[tuple[str, str]] = []
        started = time.perf_counter()
        try:
            for kind, schedule in Candidates(bound, self.target, 0).draw(self.mix):
                found.append((kind, schedule_text(bound, schedule)))
                if time.perf_counter() - started > LONGEST_DRAW_S:
                    break
        except AutoschedError as error:
            return Drawn(tuple(found), str(error))
        return Drawn(tuple(found))


def problems_of(options: Options) -> Iterator[Problem]:
    """Yield the pipelines to measure: apps at the papers' sizes evenly among random ones, then more random ones."""
    settings = RandomPipelineSettings(**options.pipeline_settings)  # type: ignore[arg-type]
    seeds = range(options.first, options.first + options.pipelines)
    apps = app_names(options)
    small = options.sizes == ("small",)
    placed = [(k / max(len(seeds), 1), Problem.random(seed, settings)) for k, seed in enumerate(seeds)]
    placed += [(k / max(len(apps), 1), Problem.app(app, small=small)) for k, app in enumerate(apps)]
    yield from (problem for _, problem in sorted(placed, key=lambda pair: pair[0]))
    yield from (Problem.random(seed, settings) for seed in itertools.count(seeds.stop))
