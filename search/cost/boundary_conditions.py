"""Dimensions in which boundary conditions act: a stage is computed beyond the array that it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autosched.analysis.bound_pipeline import BoundFunc


@dataclass(frozen=True, slots=True)
class Boundary:
    """A dimension in which a boundary condition acts.

    Attributes:
        dim: Name of the dimension.
        below: Points before the array.
        above: Points after the array.
        last: The last point, counted from 0.
        remainder: Whether indices are remainders of a division, as points lie on both sides of the array, or far off.
        folds: Whether a mirrored array needs no remainder, as points lie within one length above it.
    """

    dim: str
    below: int
    above: int
    last: int
    remainder: bool
    folds: bool


def boundaries(func: BoundFunc) -> Iterator[Boundary]:
    """Yield the dimensions in which the boundary condition of a Func acts; none if the Func has no such condition."""
    if func.boundary is None:
        return
    mirrored = func.boundary in ("mirrored", "mirrored_without_edge")
    for dim, (first, last), within in zip(func.dims, func.region, func.within, strict=True):
        if within is None:
            continue
        below, above = max(within[0] - first, 0), max(last - within[1], 0)
        if below + above:
            length = within[1] - within[0] + 1  # mirrored once within this distance; less two without the edge
            once = length if func.boundary == "mirrored" else length - 2
            folds = mirrored and not below and above <= once
            remainder = func.boundary == "wrapped" or (mirrored and not folds)
            yield Boundary(dim, below, above, last - first, remainder, folds)
