"""Image pyramids: Funcs at half and double the resolution, and limits of the number of levels."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence

from autosched.errors import InputError
from autosched.lang.expr import Expr, Var
from autosched.lang.func import Func
from autosched.lang.functions import select

BINOMIAL_3 = (1, 2, 1)
BINOMIAL_4 = (1, 3, 3, 1)
BINOMIAL_5 = (1, 4, 6, 4, 1)

MOST_LEVELS = 12

Tap = Callable[[Expr], Expr]
"""A Func as a function of its coordinate along one dimension, all other coordinates fixed."""

Interpolation = Callable[[Tap, Var], Expr]
"""The value at a fine coordinate from taps at coarse ones."""


def downsampled(f: Func, weights: Sequence[int], name: str, dims: Sequence[str] = ("x", "y")) -> Func:
    """Return a Func at half the resolution, filtered along one dimension after the other.

    Point x of the result is centred on points 2x (odd number of weights) or between 2x and 2x + 1 (even number).

    Args:
        f: The finer level.
        weights: Symmetric filter; it is divided by its sum.
        name: Of the last Func; those before it have their dimension appended.
        dims: Dimensions to halve, in this order.
    """
    first = -((len(weights) - 1) // 2)

    def filtered(at: Tap, v: Var) -> Expr:
        taps = [at(2 * v + first + i) for i in range(len(weights))]
        return symmetric_sum(weights, taps) * (1 / sum(weights))

    return _resampled(f, filtered, name, dims)


def upsampled(f: Func, interpolation: Interpolation, name: str, dims: Sequence[str] = ("x", "y")) -> Func:
    """Return a Func at double the resolution, interpolated along one dimension after the other.

    Args:
        f: The coarser level.
        interpolation: `between_pixels`, `on_pixels` or `binomial`.
        name: Of the last Func; those before it have their dimension appended.
        dims: Dimensions to double, in this order.
    """
    return _resampled(f, interpolation, name, dims)


def between_pixels(at: Tap, v: Var) -> Expr:
    """Interpolate linearly where coarse pixel n covers fine pixels 2n and 2n + 1: weights 3/4 and 1/4."""
    below, above = at((v - 1) // 2), at((v + 1) // 2)
    return below + select(v % 2 == 0, 0.75, 0.25) * (above - below)


def on_pixels(at: Tap, v: Var) -> Expr:
    """Interpolate linearly where coarse pixel n lies on fine pixel 2n: odd pixels are the mean of two."""
    return 0.5 * (at(v // 2) + at((v + 1) // 2))


def binomial(at: Tap, v: Var) -> Expr:
    """Interpolate by the adjoint of `BINOMIAL_5`: weights 1 6 1 over 8 at even pixels, 1 1 over 2 at odd ones."""
    below, centre, above = at((v - 1) // 2), at(v // 2), at(v // 2 + 1)
    return select(v % 2 == 0, 0.125 * (below + above) + 0.75 * centre, 0.5 * (below + above))


def symmetric_sum(weights: Sequence[int], taps: Sequence[Expr]) -> Expr:
    """Return the weighted sum of taps, those of equal weight added first."""
    half = len(weights) // 2
    sums = [*(taps[i] + taps[-1 - i] for i in range(half)), *taps[half : len(taps) - half]]
    terms = [s if w == 1 else w * s for w, s in zip(weights, sums, strict=False)]
    return functools.reduce(operator.add, terms)


def copied(f: Func, name: str) -> Func:
    """Return a Func of the same values, for a level of a pyramid that counts as a separate stage."""
    copy = Func(name)
    copy[f.vars] = f[f.vars]
    return copy


def check_levels(name: str, levels: int) -> None:
    """Refuse a number of pyramid levels below 1 or with a margin far larger than any image.

    Raises:
        InputError: Unless there are 1 to `MOST_LEVELS` levels.
    """
    if not 1 <= levels <= MOST_LEVELS:
        raise InputError(f"{name} is {levels}: give 1 to {MOST_LEVELS}")


def _resampled(f: Func, value: Interpolation, name: str, dims: Sequence[str]) -> Func:
    for k, dim in enumerate(dims):
        result = Func(name if k == len(dims) - 1 else f"{name}_{dim}")
        v = next(v for v in f.vars if v.name == dim)
        result[f.vars] = value(functools.partial(_at, f, dim), v)
        f = result
    return f


def _at(f: Func, dim: str, coordinate: Expr) -> Expr:
    value: Expr = f[tuple(coordinate if v.name == dim else v for v in f.vars)]
    return value
