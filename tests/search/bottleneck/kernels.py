"""Diagnoses of real kernels, for tests of classes and rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import autosched
from autosched import Func, Input, Pipeline, ScheduledPipeline, Var
from autosched.apps import get_app
from autosched.commands.bottlenecks import diagnoses_of
from autosched.featurize.featurizer import Featurizer
from autosched.lang.dtypes import DType, float64
from autosched.measure.simulated import simulate
from autosched.measure.simulated.device import Device
from autosched.search.bottleneck.diagnosis import Diagnosis, diagnose
from autosched.search.bottleneck.feature_counts import counted_flops, repetitions
from autosched.search.bottleneck.simulated_counts import simulated_profile
from autosched.search.refine.mainloop.step_cost import evaluated

x, y = Var("x"), Var("y")


def scheduled_app(
    name: str, sizes: Mapping[str, int] | None = None, target: str = "h200", strategy: str = "roots"
) -> ScheduledPipeline:
    """Return an app with a schedule."""
    app = get_app(name)
    shapes = app.shapes(dict(sizes) if sizes is not None else app.small_sizes)
    return autosched.schedule(app.build(), shapes, target, strategy=strategy)


def polynomial(terms: int, dtype: DType = float64) -> Pipeline:
    """Return a pointwise pipeline of two operations for each term."""
    image, f = Input("image", dtype, 2), Func("f")
    value = image[y, x]
    for k in range(terms):
        value = value * value + (k + 0.5)
    f[y, x] = value
    return Pipeline(f)


def simulated_diagnoses(s: ScheduledPipeline) -> dict[str, Diagnosis]:
    """Return the diagnoses of a schedule by the counts of the simulated device, by kernel."""
    device, featurizer = Device.of(s.target), Featurizer(s.bound, s.target)
    simulated = simulate(s.bound, s.schedule, s.target)
    diagnoses = {}
    for k, (part, kernel) in enumerate(zip(simulated.kernels, s.schedule.kernels, strict=True)):
        steps, launches = repetitions(s.bound, kernel)
        flops = steps * counted_flops(evaluated(featurizer, kernel).batch_evaluation)
        profile = simulated_profile(part, device, flops, launches)
        diagnoses[part.name] = diagnose(s.bound, s.schedule, k, profile)
    return diagnoses


def feature_diagnoses(s: ScheduledPipeline) -> dict[str, Diagnosis]:
    """Return the diagnoses of a schedule by its features, by kernel."""
    return {d.profile.name: d for d in diagnoses_of(s)}


def with_seconds(d: Diagnosis, s: ScheduledPipeline, number: int, seconds: float) -> Diagnosis:
    """Return the diagnosis of a kernel that takes another time."""
    return diagnose(s.bound, s.schedule, number, replace(d.profile, seconds=seconds))
