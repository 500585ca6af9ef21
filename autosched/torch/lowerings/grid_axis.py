"""Coordinates of a grid sampler along one dimension of its input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from autosched.lang import functions as fn
from autosched.lang.dtypes import int32
from autosched.lang.expr import Expr
from autosched.torch.lowerings.pointwise import constant

Interpolation = Literal["bilinear", "nearest", "bicubic"]
PaddingMode = Literal["zeros", "border", "reflection"]

_A = -0.75
"""PyTorch's coefficient of cubic convolution."""


@dataclass(frozen=True)
class GridAxis:
    """One dimension of the input of a grid sampler.

    Attributes:
        extent: Elements of the dimension.
        interpolation: How elements are combined.
        padding: Which elements lie outside.
        aligned: Whether -1 and 1 are the centres of the outermost elements, else their outer edges.
        at_nan: The element inside that is read where a position is no number; ``none`` leaves all out.
        exact: Whether reflection has an exact remainder, at any distance; else that of a rounded quotient.
    """

    extent: int
    interpolation: Interpolation
    padding: PaddingMode
    aligned: bool
    at_nan: Literal["first", "last", "none"] = "first"
    exact: bool = False

    @property
    def scale(self) -> float:
        """Elements by unit of the grid."""
        return (self.extent - 1) / 2 if self.aligned else self.extent / 2

    def position(self, g: Expr) -> Expr:
        """Return the position of a grid value, in elements; padding applies except to cubic interpolation."""
        place = self._scaled(g)
        return place if self.interpolation == "bicubic" else self.padded(place)

    def slope(self, g: Expr) -> Expr:
        """Return the derivative of `position`."""
        scale = constant(self.scale, g.dtype)
        if self.interpolation == "bicubic" or self.padding == "zeros":
            return scale
        place = self._scaled(g)
        sign = constant(1, g.dtype)
        if self.padding == "reflection":
            place, sign = self._reflected(place)
        inside = (place > 0) & (place < self.extent - 1)
        return fn.select(inside, scale * sign, constant(0, g.dtype))

    def _scaled(self, g: Expr) -> Expr:
        if self.aligned:
            return (g + 1) * constant(self.scale, g.dtype)
        return ((g + 1) * self.extent - 1) * constant(0.5, g.dtype)

    def padded(self, place: Expr) -> Expr:
        """Return the position that padding reads in place of one."""
        if self.padding == "zeros":
            return place
        if self.padding == "reflection":
            place = self._reflected(place)[0]
        return self._clipped(place)

    def _clipped(self, place: Expr) -> Expr:
        """Return the nearest position inside; only `fn.clamp` keeps a NaN."""
        first, last = constant(0, place.dtype), constant(self.extent - 1, place.dtype)
        if self.at_nan == "none":
            return fn.clamp(place, first, last)
        if self.at_nan == "last":
            place = fn.select(place < last, place, last)
            return fn.select(place > first, place, first)
        place = fn.select(place > first, place, first)
        return fn.select(place < last, place, last)

    def _reflected(self, place: Expr) -> tuple[Expr, Expr]:
        """Return the mirrored position and the derivative of mirroring."""
        low = 0.0 if self.aligned else -0.5
        span = self.extent - 1 if self.aligned else self.extent
        if span == 0:
            return constant(0, place.dtype), constant(0, place.dtype)
        one = constant(1, place.dtype)
        moved = place - low
        distance = fn.abs(moved)
        turns = fn.floor(distance / span)
        extra = fn.fmod(distance, constant(span, place.dtype)) if self.exact else distance - turns * span
        odd = turns - 2 * fn.floor(turns * 0.5) > 0
        mirrored = fn.select(odd, span - extra, extra) + low
        return mirrored, fn.select(odd, -one, one) * fn.select(moved < 0, -one, one)

    @property
    def taps(self) -> range:
        """Offsets of the elements that are combined, from the element before the position."""
        return {"nearest": range(1), "bilinear": range(2), "bicubic": range(-1, 3)}[self.interpolation]

    def first(self, position: Expr) -> Expr:
        """Return the element that offset 0 reads: the nearest, or the one before a position."""
        return fn.round(position) if self.interpolation == "nearest" else fn.floor(position)

    def weights(self, position: Expr) -> list[Expr]:
        """Return the factor of each tap."""
        t = position - self.first(position)
        one = constant(1, t.dtype)
        if self.interpolation == "nearest":
            return [one]
        if self.interpolation == "bilinear":
            return [one - t, t]
        return [_outer(t + 1), _inner(t), _inner(1 - t), _outer(2 - t)]

    def weight_slopes(self, position: Expr) -> list[Expr]:
        """Return the derivative of each tap's factor by the position."""
        t = position - self.first(position)
        one = constant(1, t.dtype)
        if self.interpolation == "nearest":
            return [constant(0, t.dtype)]
        if self.interpolation == "bilinear":
            return [-one, one]
        return [_outer_slope(t + 1), _inner_slope(t), -_inner_slope(1 - t), -_outer_slope(2 - t)]

    def element(self, position: Expr, tap: Expr | int) -> tuple[Expr, list[Expr]]:
        """Return the index of a tap, in range, with the conditions under which it is not zero by padding."""
        place = self.first(position) + (fn.cast(position.dtype, tap) if isinstance(tap, Expr) else tap)
        if self.interpolation == "bicubic":
            place = self.padded(place)
        index = fn.cast(int32, fn.clamp(place, 0, self.extent - 1))
        if self.padding != "zeros":
            is_first = self.interpolation != "bilinear" or (isinstance(tap, int) and tap == 0)
            if is_first and (self.at_nan != "none" or self.interpolation == "bicubic"):
                return index, []
            return index, [place <= self.extent - 1]
        return index, [place >= 0, place <= self.extent - 1]


def _inner(x: Expr) -> Expr:
    """Return the cubic kernel at a distance up to 1."""
    return ((_A + 2) * x - (_A + 3)) * x * x + 1


def _outer(x: Expr) -> Expr:
    """Return the cubic kernel at a distance from 1 to 2."""
    return ((_A * x - 5 * _A) * x + 8 * _A) * x - 4 * _A


def _inner_slope(x: Expr) -> Expr:
    return (3 * (_A + 2) * x - 2 * (_A + 3)) * x


def _outer_slope(x: Expr) -> Expr:
    return (3 * _A * x - 10 * _A) * x + 8 * _A


def chosen(k: Expr, values: list[Expr]) -> Expr:
    """Return the value of a number."""
    result = values[-1]
    for number in reversed(range(len(values) - 1)):
        result = fn.select(k <= number, values[number], result)
    return result
