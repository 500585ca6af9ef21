"""Variations of kernels, and kernels of a schedule that vary together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import AutoschedError
from autosched.featurize.featurizer import Featurizer
from autosched.schedule.legality.validate import kernel_violations, violations
from autosched.schedule.types import Kernel, Schedule
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.target import Target


@dataclass(frozen=True)
class Variation:
    """A change that applies to kernels with the same form.

    Attributes:
        name: What it changes, for users.
        apply: Returns the changed kernel; None if the change does not apply.
        points: Points of a thread, the product of its unrolling factors; 0 for changes of something else.
    """

    name: str
    apply: Callable[[Kernel], Kernel | None]
    points: int = 0


def similar_kernels(bound: BoundPipeline, schedule: Schedule, target: Target) -> list[tuple[int, ...]]:
    """Return the positions of the kernels in groups of the same loops and features, such as the sweeps of a stencil.

    Args:
        bound: The pipeline, with the schedule's rewrites.
        schedule: The schedule.
        target: Its device.
    """
    featurizer = Featurizer(bound, target)
    groups: dict[object, list[int]] = {}
    for k, kernel in enumerate(schedule.kernels):
        loops = tuple((p.kind, p.extent) for t in kernel.tilings() for p in t.loops)
        try:
            features: object = evaluated(featurizer, kernel).batch_evaluation.features.round(6).tobytes()
        except AutoschedError:  # a kernel that no sketch describes
            features = k
        groups.setdefault((loops, features), []).append(k)
    return [tuple(numbers) for numbers in groups.values()]


def varied_schedule(
    bound: BoundPipeline, target: Target, schedule: Schedule, numbers: Sequence[int], variation: Variation
) -> Schedule | None:
    """Return a schedule with a variation of some kernels; None if it changes nothing or is not legal.

    Args:
        bound: The pipeline, with the schedule's rewrites.
        target: The device.
        schedule: The schedule.
        numbers: Positions of the kernels.
        variation: The change.
    """
    kernels = list(schedule.kernels)
    for k in numbers:
        try:
            changed = variation.apply(kernels[k])
        except AutoschedError:  # outside of the search space
            return None
        if changed is None or kernel_violations(bound, changed, target):
            return None
        kernels[k] = changed
    result = replace(schedule, kernels=tuple(kernels))
    return None if result == schedule or violations(bound.root_pipeline, result, target) else result
