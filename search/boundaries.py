"""Where boundary conditions act: dimensions in which a stage is computed beyond what it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autosched.analysis.bound import BoundPipeline
from autosched.lang.expr import Var


@dataclass(frozen=True, slots=True)
class Boundary:
    """A dimension in which a boundary condition acts.

    Attributes:
        dim: Its name.
        below: Points before the first that is there.
        above: Points after the last.
        remainder: Whether indices stay remainders of a division: where points may lie on both sides, or far off.
        folds: Whether there are no remainders as all points lie a little above the last of a mirrored array.
    """

    dim: str
    below: int
    above: int
    remainder: bool
    folds: bool


def boundaries(bound: BoundPipeline, name: str) -> Iterator[Boundary]:
    """Yield where the boundary condition of a Func acts; nothing where it is none.

    What is there is the whole source: ranges that the condition was given are not looked at.
    """
    func = bound.funcs[name]
    if func.boundary is None:
        return
    for load, source in func.stages[0].loads:
        for dim, (first, last), index, there in zip(
            func.dims, func.region, load.indices, _range(bound, source), strict=False
        ):
            below, above = max(there[0] - first, 0), max(last - there[1], 0)
            if isinstance(index, Var) or not below + above:
                continue
            mirrored = func.boundary in ("mirrored", "mirrored_without_edge")
            folds = mirrored and not below and above < there[1] - there[0]
            wraps = func.boundary == "wrapped"
            yield Boundary(dim, below, above, wraps or (mirrored and not folds), folds)


def _range(bound: BoundPipeline, source: str) -> tuple[tuple[int, int], ...]:
    """Return the first and last point of an array in each dimension."""
    if source in bound.inputs:
        return tuple((0, n - 1) for n in bound.inputs[source].shape)
    return tuple((first, last) for first, last in bound.funcs[source].region)
