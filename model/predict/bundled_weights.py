"""Files of the bundled weights; this module does not import PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autosched.errors import InputError
from autosched.target import Target, built_in_target

WEIGHTS = Path(__file__).parents[1] / "weights"
KINDS = ("measured", "simulated")
"""Kinds of the bundled weights' labels, in order of preference."""
MEASURED = KINDS[:1]
"""Kinds that are used by default. Simulated times are a model's, no better founded than the analytical ones."""
SUFFIX = ".safetensors"


def find_weights(target: Target, kinds: Sequence[str] = MEASURED) -> Path | None:
    """Return the file of a target's bundled weights, or None; weights of a CPU are for one kind of processor.

    A GPU of this machine has those of its own name or, without any, of the built-in target of its chip.

    Args:
        target: The device to predict for.
        kinds: Kinds of labels, in order of preference.
    """
    for kind in kinds:
        for slug in dict.fromkeys((_slug(target), _slug(built_in_target(target)))):
            path = WEIGHTS / f"{slug}-{kind}{SUFFIX}"
            if path.exists():
                return path
    return None


def _slug(target: Target) -> str:
    name = "".join(target.name.lower().removeprefix("nvidia ").split())
    return "-".join([name, *target.processor.lower().split()])


def shipped_weights(target: Target) -> Path:
    """Return the file of a target's bundled weights, of any kind.

    Raises:
        InputError: There are none.
    """
    path = find_weights(target, KINDS)
    if path is not None:
        return path
    available = ", ".join(sorted(p.stem for p in WEIGHTS.glob(f"*{SUFFIX}"))) or "none"
    raise InputError(
        f"no weights for {target.name} come with this release (there are: {available}); train some with "
        "scripts/train.py and give their file, or search with the analytical model"
    )
