"""Which sources features and analytical times follow from, so that what is cached of others is made again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

MODULES = {
    "autosched.analysis": ("*.py",),
    "autosched.featurize": ("*.py",),
    "autosched.schedule": ("*.py",),
    "autosched.search": (
        "align.py",
        "analytical*.py",
        "block_reads.py",
        "boundaries.py",
        "cpu_*.py",
        "kernel_work.py",
        "lane_*.py",
        "place_bounds.py",
        "stage_work.py",
    ),
    "autosched.model": ("gpu_parts.py", "prior.py"),
}
"""Files that matter, by package."""


@lru_cache(maxsize=1)
def features_digest() -> str:
    """Return hexadecimal digits that change with any source that features or analytical times follow from.

    A version that people have to raise is forgotten some day, and then a model is trained on a mixture of old and new
    features. Making them again after a change that did not matter costs minutes.
    """
    return digest_of(_sources())


def digest_of(files: Iterable[Path]) -> str:
    """Return hexadecimal digits of names and contents of files, in whatever order they come."""
    found = hashlib.sha256()
    for path in sorted(files, key=lambda p: (p.parent.name, p.name)):
        found.update(f"{path.parent.name}/{path.name}\n".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _sources() -> list[Path]:
    found: list[Path] = []
    for package, patterns in MODULES.items():
        spec = find_spec(package)
        places = (spec.submodule_search_locations if spec else None) or []
        found += [file for place in places for pattern in patterns for file in Path(place).glob(pattern)]
    return found
