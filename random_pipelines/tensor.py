"""Operands and results of stages: Funcs and inputs over boxes that start at zero, and values with ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from autosched.lang.dtypes import DType
from autosched.lang.expr import Expr, ExprLike, Var
from autosched.lang.func import Func, Input

Coordinates = Mapping[str, ExprLike]


@dataclass(frozen=True, slots=True)
class Value:
    """An expression with bounds of its values (of floats as if arithmetic did not round)."""

    expr: Expr
    low: float
    high: float

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.expr.dtype

    @property
    def bound(self) -> float:
        """Largest absolute value."""
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True, slots=True)
class Tensor:
    """A Func or Input, or one component of a tuple-valued Func, over ``[0, n)`` in each dimension.

    Attributes:
        source: The Func or Input.
        dims: Names of the dimensions, outermost first: batch n, channels c, space z, y, x, bins b.
        shape: Extents.
        low: Lowest value.
        high: Highest value.
        closed: Bounded dimensions, in which it may be read only inside its shape.
        component: Number of the tuple component.
    """

    source: Func | Input
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    low: float
    high: float
    closed: frozenset[str]
    component: int = 0

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.source.dtypes[self.component]

    @property
    def points(self) -> int:
        """Number of points."""
        return prod(self.shape)

    @property
    def extents(self) -> dict[str, int]:
        """Extents by dimension."""
        return dict(zip(self.dims, self.shape, strict=True))

    @property
    def spatial(self) -> tuple[str, ...]:
        """Names of the spatial dimensions."""
        return tuple(d for d in self.dims if d in "zyx")

    def without(self, *dims: str) -> dict[str, int]:
        """Return the extents of the other dimensions."""
        return {d: n for d, n in self.extents.items() if d not in dims}

    def __getitem__(self, dim: str) -> int:
        return self.extents[dim]

    def at(self, coordinates: Coordinates | None = None) -> Value:
        """Return the value at a point; coordinates left out are the Vars of the dimensions' names."""
        given = coordinates or {}
        read = self.source[tuple(given[d] if d in given else Var(d) for d in self.dims)]
        return Value(read[self.component] if isinstance(read, tuple) else read, self.low, self.high)
