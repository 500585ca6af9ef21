"""Where the weights lie that come with the package; nothing here needs PyTorch."""

from __future__ import annotations

from pathlib import Path

from autosched.errors import InputError
from autosched.target import Target

WEIGHTS = Path(__file__).parents[1] / "weights"
KINDS = ("measured", "simulated")
"""Sources of labels of shipped weights, the preferred one first."""
SUFFIX = ".safetensors"


def find_weights(target: Target) -> Path | None:
    """Return the file of the weights shipped for a target, or None; those of a CPU are for one kind of processor."""
    name = "".join(target.name.lower().removeprefix("nvidia ").split())
    slug = "-".join([name, *target.processor.lower().split()])
    for kind in KINDS:
        path = WEIGHTS / f"{slug}-{kind}{SUFFIX}"
        if path.exists():
            return path
    return None


def shipped_weights(target: Target) -> Path:
    """Return the file of the weights shipped for a target.

    Raises:
        InputError: There are none.
    """
    found = find_weights(target)
    if found is not None:
        return found
    known = ", ".join(sorted(p.stem for p in WEIGHTS.glob(f"*{SUFFIX}"))) or "none"
    raise InputError(
        f"no weights for {target.name} come with this release (there are: {known}); train some with scripts/train.py "
        "and give their file, or search with the analytical model"
    )
