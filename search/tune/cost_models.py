"""Choice of a search's cost model by name."""

from __future__ import annotations

import os

from autosched.errors import InputError
from autosched.model.predict.bundled_weights import SUFFIX, find_weights
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.cost.protocol import CostModel
from autosched.target import Target

ANALYTICAL, LEARNED = "analytical", "learned"
Choice = CostModel | str | os.PathLike[str] | None
"""A model, `ANALYTICAL`, `LEARNED`, or a file of weights; None for the best available model of a target."""


def cost_model(choice: Choice, target: Target) -> CostModel:
    """Return the model of a choice.

    Args:
        choice: None is the learned model if the package has weights of measured times for the target, else the
            analytical model.
        target: The device to predict for.

    Raises:
        InputError: If there are no such weights, or they cannot be used.
    """
    if choice is None:
        choice = LEARNED if find_weights(target) else ANALYTICAL
    if choice == ANALYTICAL:
        return analytical_model(target)
    if isinstance(choice, str | os.PathLike):
        from autosched.model.predict.learned import load_model  # imports PyTorch

        if choice == LEARNED:
            return load_model(target)
        if not os.fspath(choice).endswith(SUFFIX):
            raise InputError(
                f"no cost model {os.fspath(choice)!r}: give {LEARNED}, {ANALYTICAL}, or a file of weights (*{SUFFIX})"
            )
        return load_model(choice, target)
    return choice
