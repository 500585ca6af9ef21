"""Effort of the one-shot search: how long it may take, as one word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from autosched.errors import InputError
from autosched.search.settings import COMPILED, SAMPLES, SearchSettings

Effort = Literal["fast", "default", "thorough"]
EFFORT_NAMES: tuple[Effort, ...] = get_args(Effort)


@dataclass(frozen=True, slots=True)
class EffortLevel:
    """Settings of an effort.

    Attributes:
        settings: Settings of the beam search, of the rewrites and of the refinements, by kind of target.
        samples: Number of searches for a schedule that is not measured: beam searches, and greedy ones.
        samples_to_measure: Number of searches where the best few schedules are measured, and should differ.
        most_source: Most characters of CUDA source compiled to replace a schedule that spills registers, for each
            schedule returned (`autosched.search.tune.spill_filter.SpillTable`). NVRTC takes about 20 us for each.
    """

    settings: Mapping[str, SearchSettings]
    samples: int
    samples_to_measure: int
    most_source: int


_GREEDY = replace(COMPILED, beam_size=1, passes=1, freeze=False, refine=0)
_PATIENT = replace(COMPILED, refine_patience=1)

EFFORTS: dict[Effort, EffortLevel] = {
    "fast": EffortLevel({"cpu": _GREEDY, "cuda": _GREEDY}, samples=1, samples_to_measure=20, most_source=150_000),
    "default": EffortLevel(
        {"cpu": replace(_PATIENT, beam_size=4, passes=2), "cuda": _PATIENT},
        samples=1,
        samples_to_measure=SAMPLES,
        most_source=300_000,
    ),
    "thorough": EffortLevel(
        {"cpu": COMPILED, "cuda": COMPILED}, samples=SAMPLES, samples_to_measure=SAMPLES, most_source=600_000
    ),
}
"""The efforts, the least first. Greedy samples serve diversity: they seldom beat the beam search's best prediction."""


def effort_level(effort: str) -> EffortLevel:
    """Return the settings of an effort.

    Raises:
        InputError: If there is no such effort.
    """
    for name, level in EFFORTS.items():
        if name == effort:
            return level
    raise InputError(f"effort is {effort!r}: choose {', '.join(EFFORT_NAMES)}")


def samples_of(effort: str, samples: int | None, top_k: int) -> int:
    """Return the number of searches: the given one, else the effort's.

    Args:
        effort: Name of the effort.
        samples: Number of searches; None for the effort's.
        top_k: Number of schedules to measure, or 1.

    Raises:
        InputError: If there is no such effort.
    """
    if samples is not None:
        return samples
    level = effort_level(effort)
    return level.samples if top_k == 1 else level.samples_to_measure
