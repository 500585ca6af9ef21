"""Split of a data set's pipelines into training, validation and test."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.errors import InputError
from autosched.model.data.dataset import Dataset
from autosched.model.data.pipeline_kinds import all_kinds, kinds_of

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class HoldoutSplit:
    """Pipelines of a data set in three parts; each family of pipelines is in one of them.

    Attributes:
        training: Pipelines for training.
        validation: Pipelines for early stopping.
        held_out: Pipelines for evaluation only.
    """

    training: Ints
    validation: Ints
    held_out: Ints


def split(
    dataset: Dataset, held_out: Collection[str] = (), *, kinds: Collection[str] = (), validation: float = 0.1,
    test: float = 0.0, seed: int = 0,
) -> HoldoutSplit:  # fmt: skip
    """Split the pipelines of a data set.

    Pipelines of additional sources are used for training only; those of validation and held-out families are unused.

    Args:
        dataset: The data.
        held_out: Families to hold out, such as an app for the paper's hold-one-out training (section 7.3).
        kinds: Kinds of pipelines to hold out, each with all its families; see `pipeline_kinds`.
        validation: Share of the remaining families for early stopping.
        test: Share of the remaining families that is held out as well.
        seed: Seed of the random choice.

    Raises:
        InputError: A family or kind is not in the data, or no family remains for training.
    """
    families = dataset.own_families
    unknown = sorted(set(held_out) - set(families))
    if unknown:
        raise InputError(f"the data has no pipelines of {unknown[0]!r} to hold out; it has {', '.join(families)}")
    absent = sorted(set(kinds) - set(all_kinds(families)))
    if absent:
        present = ", ".join(all_kinds(families)) or "none (random_pipelines=users has some)"
        raise InputError(f"the data has no pipelines of the kind {absent[0]!r} to hold out; its kinds are {present}")
    held_out = {*held_out, *(f for f in dataset.families if not kinds_of(f).isdisjoint(kinds))}
    others = [f for f in families if f not in held_out]
    order = [others[k] for k in np.random.default_rng(seed).permutation(len(others))]
    first = round(test * len(order))
    second = first + max(1, round(validation * len(order)))
    if second >= len(order):
        raise InputError(
            f"{len(order)} families of pipelines are too few to train with, to validate and to hold out; add data"
        )
    tested, validated = {*held_out, *order[:first]}, set(order[first:second])
    part = np.array([2 if f in tested else 1 if f in validated else 0 for f in dataset.families])
    training, validating, testing = (np.flatnonzero(part == k) for k in range(3))
    evaluated = dataset.own_pipelines
    return HoldoutSplit(training, np.intersect1d(validating, evaluated), np.intersect1d(testing, evaluated))
