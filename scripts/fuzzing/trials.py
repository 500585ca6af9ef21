"""Trials: the schedules of a program's runs."""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

import autosched as au
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.legality.validate import validate
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Schedule
from autosched.target import Target, get_target
from fuzzing.program import Built

TARGETS = ("cpu", "h200")
SAMPLED = "sampled"
DRAWN = "drawn"
DEFAULT = "default"
STRATEGIES = ("roots", "beam", "sioutas", "forma", DRAWN)
"""Strategies of `autosched.schedule`; `DRAWN` is the default mode with few samples and the analytical model."""
SAMPLES = 3
DEFAULT_EVERY = 40
"""Period of the programs that are scheduled with default options."""


class RoundTripError(AssertionError):
    """A schedule differs from its JSON form."""


@dataclass(frozen=True)
class Trial:
    """One schedule of a program.

    Attributes:
        target: Name of the target: ``cpu`` runs in C, ``h200`` in the emulator.
        scheduler: `SAMPLED`, one of `STRATEGIES`, or `DEFAULT`.
        seed: Seed of the schedule and of the order of threads.
    """

    target: str
    scheduler: str
    seed: int

    def __str__(self) -> str:
        return f"{self.target}, {self.scheduler}"


def trials_of(number: int) -> tuple[Trial, ...]:
    """Return the trials of a numbered program: a random schedule and a strategy's for each target."""
    rng = random.Random(f"trials {number}")
    default = rng.randrange(DEFAULT_EVERY) == 0
    trials = []
    for target in TARGETS:
        trials.append(Trial(target, SAMPLED, rng.randrange(1 << 16)))
        trials.append(Trial(target, DEFAULT if default else rng.choice(STRATEGIES), rng.randrange(1 << 16)))
    return tuple(trials)


def find_schedule(built: Built, bound: BoundPipeline, trial: Trial) -> Schedule:
    """Return the schedule of a trial; warnings are errors.

    Raises:
        AutoschedError: If there is no schedule, or an illegal one.
        RoundTripError: If the schedule differs from its JSON form.
        Warning: If the search warns, for instance of a fallback for a failed strategy.
    """
    target = target_named(trial.target)
    if trial.scheduler == SAMPLED:
        schedule = sample_schedule(bound, target, np.random.default_rng(trial.seed), varied=True, lanes="exact")
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            schedule = _searched(built, trial)
        validate(bound, schedule, target)
    if from_json(to_json(bound, schedule), bound) != schedule:
        raise RoundTripError("the schedule read from JSON differs from the one written")
    return schedule


def _searched(built: Built, trial: Trial) -> Schedule:
    usual = built.pipeline, built.shapes, trial.target, built.params
    if trial.scheduler == DEFAULT:
        return au.schedule(*usual, seed=trial.seed, reuse=False).schedule
    strategy = None if trial.scheduler == DRAWN else trial.scheduler
    return au.schedule(
        *usual, strategy=strategy, samples=SAMPLES, cost="analytical", seed=trial.seed, reuse=False
    ).schedule


@lru_cache
def target_named(name: str) -> Target:
    """Return the target of a name."""
    return get_target(name)
