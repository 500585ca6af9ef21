"""Diagnosis of kernels: class, intensities, and what to try."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.featurizer import Featurizer
from autosched.runtime.backends.kernel_info import KernelInfo
from autosched.schedule.types import Schedule
from autosched.search.bottleneck.classification import Bottleneck, classify
from autosched.search.bottleneck.feature_counts import kernel_features_profile
from autosched.search.bottleneck.kernel_profile import KernelProfile, MemoryLevel
from autosched.search.bottleneck.kernel_traits import KernelTraits
from autosched.search.bottleneck.rules import Observation, Rule, applicable_rules
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.search.rewrites.output_fission import divides_outputs
from autosched.target import Target


@dataclass(frozen=True)
class Diagnosis:
    """Diagnosis of one kernel.

    Attributes:
        profile: Its work by resource.
        bottleneck: Its class.
        traits: Facts of its schedule.
        rules: The rules that apply to it.
        confined_ratio: Measured time with its accesses confined to one tile over its own; None if not measured.
    """

    profile: KernelProfile
    bottleneck: Bottleneck
    traits: KernelTraits
    rules: tuple[Rule, ...]
    confined_ratio: float | None = None

    @property
    def text(self) -> str:
        """Its class as text."""
        by = "" if self.confined_ratio is None else f" ({self.confined_ratio:.0%} of the time when confined to a tile)"
        return self.bottleneck.text(self.profile.kind) + by

    @property
    def hints(self) -> tuple[str, ...]:
        """What to try, in words."""
        return tuple(words for rule in self.rules if (words := rule.words[self.profile.kind]))

    @property
    def intensities(self) -> tuple[tuple[str, float, float], ...]:
        """Name, operational intensity and balance of each accessed level of memory, in operations per byte.

        Empty for a kernel that adds and multiplies no floating-point numbers: its intensities are all 0.
        """
        p = self.profile
        if not p.flops:
            return ()
        levels = [m for m in MemoryLevel if m in p.traffic and p.traffic[m].bytes > 0]
        return tuple((m.title(p.kind), p.intensity(m), p.balance(m)) for m in levels)

    def to_data(self) -> dict[str, Any]:
        """Return data for `json`."""
        found = self.bottleneck
        return {
            "kernel": self.profile.name,
            "source": self.profile.source,
            "class": found.kind.value,
            "level": None if found.level is None else found.level.value,
            "undecided": bool(found.undecided),
            "confined_ratio": self.confined_ratio,
            "memory_share": float(found.memory_share),
            "compute_share": float(found.compute_share),
            "flops": float(self.profile.flops),
            "intensity": {name: float(intensity) for name, intensity, _ in self.intensities},
            "balance": {name: float(b) if math.isfinite(b) else None for name, _, b in self.intensities},
            "moves": [rule.move.value for rule in self.rules],
            "hints": list(self.hints),
        }


def diagnose(
    bound: BoundPipeline, schedule: Schedule, number: int, profile: KernelProfile, confined_ratio: float | None = None
) -> Diagnosis:  # fmt: skip
    """Return the diagnosis of one kernel.

    Args:
        bound: The pipeline, with the schedule's rewrites.
        schedule: The schedule.
        number: Position of the kernel.
        profile: Its work by resource.
        confined_ratio: As for `classify`.
    """
    traits = KernelTraits.of(bound, schedule, number)
    bottleneck = classify(profile, confined_ratio)
    observation = Observation(profile, bottleneck, traits)
    if observation.is_short_of_registers:
        observation = replace(observation, has_fissions=divides_outputs(bound.root_pipeline))
    return Diagnosis(profile, bottleneck, traits, applicable_rules(observation), confined_ratio)


def diagnose_schedule(
    bound: BoundPipeline, schedule: Schedule, target: Target, seconds: Sequence[float], resources: Sequence[KernelInfo],
    *, counters: Mapping[str, KernelProfile] | None = None, confined_ratios: Mapping[str, float] | None = None,
) -> list[Diagnosis | None]:  # fmt: skip
    """Return the diagnosis of each kernel; None for a kernel with too many reads for the featurizer.

    Args:
        bound: The pipeline, with the schedule's rewrites.
        schedule: The schedule.
        target: Its device.
        seconds: Predicted or measured time of each kernel, launch overhead included.
        resources: Name of each kernel, with its registers and spills if they are known.
        counters: Profiles from hardware counters by kernel, which replace those of features. Their spills are those of
            the compiler.
        confined_ratios: As for `classify`, by kernel.
    """
    counters, confined_ratios = counters or {}, confined_ratios or {}
    featurizer = Featurizer(bound, target)
    diagnoses: list[Diagnosis | None] = []
    for k, (kernel, time, info) in enumerate(zip(schedule.kernels, seconds, resources, strict=True)):
        profile = counters.get(info.name)
        if profile is not None:
            profile = replace(profile, spill_bytes=info.spill_bytes)
        elif math.isfinite(time):
            features = evaluated(featurizer, kernel).batch_evaluation
            profile = kernel_features_profile(bound, kernel, info.name, features, target, time, info)
        found = None
        if profile is not None:
            found = diagnose(bound, schedule, k, profile, confined_ratios.get(info.name))
        diagnoses.append(found)
    return diagnoses
