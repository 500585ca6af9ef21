"""Where boundary conditions act: dimensions in which a stage is computed beyond what it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autosched.analysis.bound_pipeline import BoundFunc


@dataclass(frozen=True, slots=True)
class Boundary:
    """A dimension in which a boundary condition acts.

    Attributes:
        dim: Its name.
        below: Points before the first that is read.
        above: Points after the last.
        last: The last point, counted from 0.
        remainder: Whether indices stay remainders of a division: where points may lie on both sides, or far off.
        folds: Whether there are no remainders as all points lie a little above the last of a mirrored array.
    """

    dim: str
    below: int
    above: int
    last: int
    remainder: bool
    folds: bool


def boundaries(func: BoundFunc) -> Iterator[Boundary]:
    """Yield where the boundary condition of a Func acts; nothing where it is none."""
    if func.boundary is None:
        return
    mirrored = func.boundary in ("mirrored", "mirrored_without_edge")
    for dim, (first, last), within in zip(func.dims, func.region, func.within, strict=True):
        if within is None:
            continue
        below, above = max(within[0] - first, 0), max(last - within[1], 0)
        if below + above:
            length = within[1] - within[0] + 1  # what lies as far above is mirrored once, without the edge but for two
            once = length if func.boundary == "mirrored" else length - 2
            folds = mirrored and not below and above <= once
            remainder = func.boundary == "wrapped" or (mirrored and not folds)
            yield Boundary(dim, below, above, last - first, remainder, folds)
