"""Files of the bundled weights; this module does not import PyTorch."""

from __future__ import annotations

from pathlib import Path

from autosched.errors import InputError
from autosched.target import Target

WEIGHTS = Path(__file__).parents[1] / "weights"
KINDS = ("measured", "simulated")
"""Kinds of the bundled weights' labels, in order of preference."""
SUFFIX = ".safetensors"


def find_weights(target: Target) -> Path | None:
    """Return the file of a target's bundled weights, or None; weights of a CPU are for one kind of processor."""
    name = "".join(target.name.lower().removeprefix("nvidia ").split())
    slug = "-".join([name, *target.processor.lower().split()])
    for kind in KINDS:
        path = WEIGHTS / f"{slug}-{kind}{SUFFIX}"
        if path.exists():
            return path
    return None


def shipped_weights(target: Target) -> Path:
    """Return the file of a target's bundled weights.

    Raises:
        InputError: There are none.
    """
    path = find_weights(target)
    if path is not None:
        return path
    available = ", ".join(sorted(p.stem for p in WEIGHTS.glob(f"*{SUFFIX}"))) or "none"
    raise InputError(
        f"no weights for {target.name} come with this release (there are: {available}); train some with "
        "scripts/train.py and give their file, or search with the analytical model"
    )
