"""Dimensions in which boundary conditions act: a stage is computed beyond the array that it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autosched.analysis.bound_pipeline import BoundFunc
from autosched.analysis.indices import index as ix


@dataclass(frozen=True, slots=True)
class Boundary:
    """A dimension in which a boundary condition acts.

    Attributes:
        dim: Name of the dimension.
        below: Points before the array.
        above: Points after the array.
        last: The last point, counted from 0.
        remainder: Whether indices are remainders of a division: of wrapped arrays, and of mirrored ones far off.
        folds: Whether a mirrored array needs no remainder, as points lie within one length on both sides of it.
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
    for k, (dim, (first, last), within) in enumerate(zip(func.dims, func.region, func.within, strict=True)):
        if within is None:
            continue
        below, above = max(within[0] - first, 0), max(last - within[1], 0)
        remainder = _has_remainder(func, k)
        if below + above and (remainder or func.boundary != "wrapped"):  # else extended periodically
            yield Boundary(dim, below, above, last - first, remainder, mirrored and not remainder)


def _has_remainder(func: BoundFunc, position: int) -> bool:
    """Whether a boundary condition reads its source at a remainder, in the dimension at a position."""
    (footprint,) = func.stages[0].footprints
    return any(a.kind == "mod" for i in footprint.dims[position] for a in ix.atoms(i) if isinstance(a, ix.Atom))
