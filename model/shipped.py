"""Where the weights lie that come with the package; nothing here needs PyTorch."""

from __future__ import annotations

from pathlib import Path

from autosched.errors import InputError

WEIGHTS = Path(__file__).parent / "weights"
KINDS = ("measured", "simulated")
"""Sources of labels of shipped weights, the preferred one first."""
SUFFIX = ".safetensors"


def find_weights(target_name: str) -> Path | None:
    """Return the file of the weights shipped for a target, or None."""
    slug = "".join(target_name.lower().removeprefix("nvidia ").split())
    for kind in KINDS:
        path = WEIGHTS / f"{slug}-{kind}{SUFFIX}"
        if path.exists():
            return path
    return None


def shipped_weights(target_name: str) -> Path:
    """Return the file of the weights shipped for a target.

    Raises:
        InputError: There are none.
    """
    found = find_weights(target_name)
    if found is not None:
        return found
    known = ", ".join(sorted(p.stem for p in WEIGHTS.glob(f"*{SUFFIX}"))) or "none"
    raise InputError(
        f"no weights for {target_name} come with this release (there are: {known}); train some with scripts/train.py "
        "and give their file, or search with the analytical model"
    )
