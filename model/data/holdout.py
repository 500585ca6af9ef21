"""Which pipelines a model learns from, by which training is stopped, and which it is judged by."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.errors import InputError
from autosched.model.data.dataset import Dataset

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class HoldoutSplit:
    """Pipelines of a data set in three parts; a family of pipelines is in one of them.

    Attributes:
        training: Pipelines that weights are fitted to.
        validation: Pipelines whose error ends training.
        held_out: Pipelines that a model never sees.
    """

    training: Ints
    validation: Ints
    held_out: Ints


def split(
    dataset: Dataset, held_out: Collection[str] = (), *, validation: float = 0.1, test: float = 0.0, seed: int = 0
) -> HoldoutSplit:
    """Divide the pipelines of a data set.

    Of labels of other sources beside its own those of families that are held out, or end training, are in no part.

    Args:
        dataset: The data.
        held_out: Families to be held out, such as an app for the paper's hold-one-out training (section 7.3).
        validation: Share of the other families that decides when training stops.
        test: Share of the other families that is held out too.
        seed: Of the draw.

    Raises:
        InputError: A family is not in the data, or nothing is left to train with.
    """
    families = dataset.own_families
    unknown = sorted(set(held_out) - set(families))
    if unknown:
        raise InputError(f"the data has no pipelines of {unknown[0]!r} to hold out; it has {', '.join(families)}")
    others = [f for f in families if f not in held_out]
    order = [others[k] for k in np.random.default_rng(seed).permutation(len(others))]
    first = round(test * len(order))
    second = first + max(1, round(validation * len(order)))
    if second >= len(order):
        raise InputError(
            f"{len(order)} families of pipelines are too few to train with, to validate and to hold out; add data"
        )
    tested, validated = {*held_out, *order[:first]}, set(order[first:second])
    place = np.array([2 if f in tested else 1 if f in validated else 0 for f in dataset.families])
    training, validating, testing = (np.flatnonzero(place == k) for k in range(3))
    own = dataset.own_pipelines
    return HoldoutSplit(training, np.intersect1d(validating, own), np.intersect1d(testing, own))
