"""Tensors of an ATen graph as functions from coordinates to expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from autosched.lang.dtypes import BY_NAME, DType
from autosched.lang.expr import Expr, ExprLike, Var
from autosched.lang.func import Func, Input

Point = tuple[ExprLike, ...]
"""Coordinates of an element, one for each dimension of its tensor; every one is in range."""


class UnsupportedError(Exception):
    """Raised where an operator, or a form of it, has no translation; the text is the reason."""


class InvalidOperandError(UnsupportedError):
    """Raised where PyTorch's own operator raises an error for such operands, whatever their values."""


def element_type(dtype: torch.dtype) -> DType:
    """Return the language's element type.

    Raises:
        UnsupportedError: If there is none.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in BY_NAME:
        raise UnsupportedError(f"elements of type {name}")
    return BY_NAME[name]


@dataclass(frozen=True, eq=False)
class TensorValue:
    """A tensor: its value at every point, as an expression.

    Views are maps of points, so that a chain of them costs nothing.

    Attributes:
        fake: A tensor without data, of the shape, strides and type.
        at: Value at a point.
        source: The array whose element `at` reads at the same point; None for other expressions.
        constant: The tensor, if it depends on no input.
        is_view: Whether `at` reads one element of a stored array at a point that follows from the coordinates.
        merged: The tensor whose neighbouring dimensions this one merges, and its dimensions for each of this one's.
    """

    fake: torch.Tensor
    at: Callable[[Point], Expr]
    source: Func | Input | None = None
    constant: torch.Tensor | None = None
    is_view: bool = False
    merged: tuple[TensorValue, tuple[tuple[int, ...], ...]] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, outermost first."""
        return tuple(int(n) for n in self.fake.shape)

    @property
    def dtype(self) -> DType:
        """Element type."""
        return element_type(self.fake.dtype)

    def stored(self, name: str) -> TensorValue:
        """Return the tensor as a Func, unless it is an array or a view of one.

        Args:
            name: Name of the Func.
        """
        return self if self.source is not None or self.is_view else stored(self, name)


def coordinates(rank: int) -> tuple[Var, ...]:
    """Return a Var for each dimension, outermost first."""
    return tuple(Var(f"d{axis}") for axis in range(rank))


def stored(value: TensorValue, name: str) -> TensorValue:
    """Return a tensor as a new Func over its dimensions."""
    func = Func(name)
    point = coordinates(len(value.shape))
    func[point] = value.at(point)
    return replace(value, at=lambda p: func[p], source=func, is_view=True, merged=None)


def of_source(fake: torch.Tensor, source: Func | Input, constant: torch.Tensor | None = None) -> TensorValue:
    """Return the tensor that an array holds, in its own order of dimensions."""
    return TensorValue(fake, lambda p: source[tuple(p)], source, constant, is_view=True)


def view_of(value: TensorValue, fake: torch.Tensor, index: Callable[[Point], Sequence[ExprLike]]) -> TensorValue:
    """Return a view.

    Args:
        value: The tensor that is read.
        fake: A tensor of the view's shape and type.
        index: Point of `value` for each point of the view.
    """
    return TensorValue(fake, lambda p: value.at(tuple(index(p))), is_view=value.is_view)
