"""Stencils on 3-D grids: shifted reads, sums along axes, rims that keep a value.

Axes are numbered as in the formulas, 0, 1, 2 for x, y, z, though arrays are indexed [z, y, x].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import Arrays
from autosched.apps.sizes import Extent, shapes_from_sizes
from autosched.lang.expr import Expr, ExprLike, Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import all_of, select
from autosched.lang.operators import as_expr

AXES = (0, 1, 2)
DIMS = ("x", "y", "z")
HERE = (0, 0, 0)
POINT = tuple(Var(dim) for dim in DIMS)

Offset = tuple[int, int, int]
"""Distance in points along x, y, z."""


class Field:
    """A quantity on the grid: an expression at every offset from the point that is computed.

    Fields combine by arithmetic operators, so that an operator on an expression reads as in the formulas.

    Args:
        at: Returns the expression at an offset; called once per offset.
    """

    def __init__(self, at: Callable[[Offset], Expr]) -> None:
        self._at = at
        self._cache: dict[Offset, Expr] = {}

    def __call__(self, offset: Offset = HERE) -> Expr:
        """Return the expression at an offset."""
        if offset not in self._cache:
            self._cache[offset] = self._at(offset)
        return self._cache[offset]

    def along(self, axis: int, distance: int) -> Field:
        """Return the field ``distance`` points further along an axis."""
        return self.moved(unit(axis, distance))

    def moved(self, by: Offset) -> Field:
        """Return the field shifted by an offset."""
        return Field(lambda o: self((o[0] + by[0], o[1] + by[1], o[2] + by[2])))

    def __add__(self, other: Operand) -> Field:
        return Field(lambda o: self(o) + _value(other, o))

    def __radd__(self, other: Operand) -> Field:
        return Field(lambda o: _value(other, o) + self(o))

    def __sub__(self, other: Operand) -> Field:
        return Field(lambda o: self(o) - _value(other, o))

    def __rsub__(self, other: Operand) -> Field:
        return Field(lambda o: _value(other, o) - self(o))

    def __mul__(self, other: Operand) -> Field:
        return Field(lambda o: self(o) * _value(other, o))

    def __rmul__(self, other: Operand) -> Field:
        return Field(lambda o: _value(other, o) * self(o))

    def __truediv__(self, other: Operand) -> Field:
        return Field(lambda o: self(o) / _value(other, o))

    def __rtruediv__(self, other: Operand) -> Field:
        return Field(lambda o: _value(other, o) / self(o))

    def __neg__(self) -> Field:
        return Field(lambda o: -self(o))


Operand = Field | ExprLike
"""A field, or a value that is the same at every point; `everywhere` makes a field of an Expr on the left."""


def _value(operand: Operand, offset: Offset) -> ExprLike:
    return operand(offset) if isinstance(operand, Field) else operand


def everywhere(value: ExprLike) -> Field:
    """Return the field with the same value at every point."""
    e = as_expr(value)
    return Field(lambda _: e)


def unit(axis: int, distance: int = 1) -> Offset:
    """Return the offset of ``distance`` points along an axis."""
    x, y, z = (distance if a == axis else 0 for a in AXES)
    return x, y, z


class StencilGrid:
    """The points of a 3-D array [z, y, x], on which fields are read and Funcs are computed.

    Reads beyond the grid, by `clamped`, influence only points of the rim, which `inside` drops. Interior blocks after
    loop partitioning have no clamps and selects.

    Args:
        array: An input with the shape of the grid.
    """

    def __init__(self, array: Input) -> None:
        self.extents: tuple[Expr, ...] = array.shape[::-1]

    @property
    def box(self) -> dict[str, tuple[ExprLike, ExprLike]]:
        """The whole grid, as the box of an output."""
        return {dim: (0, n) for dim, n in zip(DIMS, self.extents, strict=True)}

    def clamped(self, f: Func | Input) -> Field:
        """Return the values of a 3-D Func or Input, with those of the nearest point beyond the grid."""
        return values(f.clamped() if isinstance(f, Input) else f.clamped(**self.box))

    def interior(self, rim: int) -> Expr:
        """Return whether a point lies at least ``rim`` points from every face."""
        low = (v >= rim for v in reversed(POINT))
        high = (v < n - rim for v, n in zip(reversed(POINT), reversed(self.extents), strict=True))
        return all_of(*low, *high)

    def inside(self, rim: int, value: Operand, otherwise: Operand) -> Expr:
        """Return ``value`` at points at least ``rim`` points from every face, else ``otherwise``."""
        return select(self.interior(rim), _value(value, HERE), _value(otherwise, HERE))

    def define(self, name: str, value: Operand) -> Func:
        """Return a Func of that name with a value at every point."""
        f = Func(name)
        f[POINT[::-1]] = _value(value, HERE)
        return f


def values(f: Func | Input, axes: Iterable[int] = AXES) -> Field:
    """Return the values of an Input, or of a Func wherever it is read, also beyond the grid.

    Args:
        f: A Func or Input over all axes, or over some of them.
        axes: The axes of its dimensions.
    """
    order = sorted(axes, reverse=True)
    return Field(lambda o: f[tuple(POINT[axis] + o[axis] if o[axis] else POINT[axis] for axis in order)])


def total(terms: Iterable[Field]) -> Field:
    """Return the sum of one or more fields, added from left to right."""
    first, *rest = terms
    for term in rest:
        first = first + term
    return first


def neighbours(f: Field, distance: int = 1) -> Field:
    """Return the sum of the six values at a distance along the axes."""
    return total(f.along(axis, m) for axis in AXES for m in (-distance, distance))


def uniform(
    extents: Mapping[str, tuple[Extent, ...]], sizes: Mapping[str, int], seed: int, positive: Iterable[str] = ()
) -> Arrays:
    """Return float64 inputs, uniform in [0, 1); those named ``positive`` in [0.5, 1.5)."""
    rng = np.random.default_rng(seed)
    arrays: Arrays = {name: rng.random(shape) for name, shape in shapes_from_sizes(extents, sizes).items()}
    for name in positive:
        arrays[name] += 0.5
    return arrays


def interior_slices(rim: int) -> tuple[slice, slice, slice]:
    """Return the slices of an array that leave out ``rim`` points at every face."""
    inner = slice(rim, -rim or None)
    return inner, inner, inner


def shifted(array: NDArray[np.float64], axis: int, distance: int) -> NDArray[np.float64]:
    """Return an array [z, y, x] read ``distance`` points further along axis 0, 1 or 2 for x, y, z; the ends wrap."""
    return np.roll(array, -distance, axis=array.ndim - 1 - axis)
