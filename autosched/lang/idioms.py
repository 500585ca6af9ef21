"""Idioms built of ordinary Funcs: reductions over windows, cumulative sums, softmax.

    smooth = window_sum(image.clamped(), y=5, x=5)       each dimension in a Func of its own
    table = cumsum(image, y=(0, height), x=(0, width))   a summed-area table
    p = softmax(scores, x=(0, width))                    along rows

Schedules choose how they are computed: windows by doubling, rows along vectors or warps.
"""

from __future__ import annotations

from collections.abc import Mapping

from autosched.errors import DSLError
from autosched.lang.dtypes import DType
from autosched.lang.expr import Expr, ExprLike, Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import cast, exp, log
from autosched.lang.operators import binary
from autosched.lang.rdom import OPERATOR_OF, RDom, maximum, reduction_identity
from autosched.lang.rdom import sum as sum_over
from autosched.lang.source_location import caller_location

Source = Func | Input
Type = DType | str | type | None
Window = int | tuple[int, int]
Range = tuple[ExprLike, ExprLike]


def window_minimum(source: Source, *, name: str = "window_minimum", **window: Window) -> Func:
    """Return the least value in a window around each point; see `window_sum`."""
    return _over_window("min", source, name, window)


def window_maximum(source: Source, *, name: str = "window_maximum", **window: Window) -> Func:
    """Return the largest value in a window around each point; see `window_sum`."""
    return _over_window("max", source, name, window)


def window_sum(source: Source, *, name: str = "window_sum", dtype: Type = None, **window: Window) -> Func:
    """Return the sum of a window around each point, in one Func for each dimension of the window.

    Args:
        source: An array or Func with one value at each point, with a boundary condition where windows reach beyond it.
        name: Name of the Func.
        dtype: Type of the sum; that of the source when left out.
        window: Elements by dimension of the source: a number n for ``n // 2`` elements before the point and the others
            from the point on, or a range (first, end) relative to the point.

    Returns:
        A Func over the dimensions of the source.

    Raises:
        DSLError: For other dimensions, an empty window, or a source with several values.
    """
    return _over_window("sum", source, name, window, dtype)


def cumsum(source: Source, *, name: str = "cumsum", dtype: Type = None, **ranges: Range) -> Func:
    """Return cumulative sums along some dimensions, one after the other, the innermost first.

    Args:
        source: An array or Func with one value at each point.
        name: Name of the Func.
        dtype: Type of the sums; that of the source when left out.
        ranges: Range (first, end) by dimension of the source; the sum begins at ``first``.

    Returns:
        A Func over the dimensions of the source; with two dimensions, a summed-area table.

    Raises:
        DSLError: For other dimensions, or a source with several values.
    """
    dims = _checked(source, ranges, "cumsum")[::-1]
    result: Source = source
    for k, dim in enumerate(dims):
        first, end = ranges[dim]
        f = Func(name if k == len(dims) - 1 else f"{name}_{dim}")
        r = RDom(f"{f.name}_r", **{dim: (first + 1, end)})
        point = [Var(d) for d in source.dims]
        value = result[tuple(point)]
        f[tuple(point)] = value if dtype is None else cast(dtype, value)
        step = [r[0] if d == dim else v for d, v in zip(source.dims, point, strict=True)]
        before = [r[0] - 1 if d == dim else v for d, v in zip(source.dims, point, strict=True)]
        f[tuple(step)] += f[tuple(before)]
        result = f
    assert isinstance(result, Func)
    return result


def softmax(source: Source, *, name: str = "softmax", **ranges: Range) -> Func:
    """Return ``exp(x - max(x)) / sum(exp(x - max(x)))`` over ranges of some dimensions.

    Args:
        source: An array or Func with one floating-point value at each point.
        name: Name of the Func.
        ranges: Range (first, end) of each dimension over which values add up to 1.

    Returns:
        A Func over the dimensions of the source.

    Raises:
        DSLError: For other dimensions, or a source without floating-point values.
    """
    e, total, _ = _exponentials(source, name, ranges)
    f, point = Func(name), tuple(Var(d) for d in source.dims)
    f[point] = e[point] / total
    return f


def log_softmax(source: Source, *, name: str = "log_softmax", **ranges: Range) -> Func:
    """Return ``x - max(x) - log(sum(exp(x - max(x))))`` over ranges of some dimensions; see `softmax`."""
    _, total, shifted = _exponentials(source, name, ranges)
    f, point = Func(name), tuple(Var(d) for d in source.dims)
    f[point] = shifted[point] - log(total)
    return f


def _exponentials(source: Source, name: str, ranges: Mapping[str, Range]) -> tuple[Func, Expr, Func]:
    """Return the Func of exponentials, their sum, and the Func of values less the largest one."""
    _checked(source, ranges, name)
    if not source.dtypes[0].is_float:
        raise DSLError(
            f"{name} of {source.name!r}, which has values of {source.dtypes[0]}", location=caller_location(),
            hint="cast it to float32",
        )  # fmt: skip
    point = tuple(Var(d) for d in source.dims)
    shifted, e = Func(f"{name}_shifted"), Func(f"{name}_exp")
    r, s = RDom(f"{name}_r", **ranges), RDom(f"{name}_s", **ranges)

    def at(over: RDom) -> tuple[Expr, ...]:
        return tuple(over[list(ranges).index(d)] if d in ranges else v for d, v in zip(source.dims, point, strict=True))

    largest = maximum(source[at(r)], over=r, name=f"{name}_max")
    shifted[point] = source[point] - largest
    e[point] = exp(shifted[point])
    return e, sum_over(e[at(s)], over=s, name=f"{name}_sum"), shifted


def _over_window(kind: str, source: Source, name: str, window: Mapping[str, Window], dtype: Type = None) -> Func:
    """Return a separable reduction over a window, the innermost dimension first."""
    dims = _checked(source, window, name)
    result: Source = source
    for k, dim in enumerate(reversed(dims)):
        size = window[dim]
        first, end = (-(size // 2), size - size // 2) if isinstance(size, int) else size
        if end <= first:
            raise DSLError(
                f"{name} of {source.name!r} over {end - first} elements in {dim}", location=caller_location(),
                hint="a window has at least one element",
            )  # fmt: skip
        f = Func(name if k == len(dims) - 1 else f"{name}_{dim}")
        r = RDom(f"{f.name}_r", **{dim: (first, end)})
        point = tuple(Var(d) for d in source.dims)
        element = result[tuple(v + r[0] if v.name == dim else v for v in point)]
        element = element if dtype is None else cast(dtype, element)
        f[point] = reduction_identity(kind, element.dtype)
        f[point] = binary(OPERATOR_OF[kind], f[point], element)
        result = f
    assert isinstance(result, Func)
    return result


def _checked(source: Source, given: Mapping[str, object], what: str) -> list[str]:
    """Return the given dimensions, outermost first."""
    unknown = [d for d in given if d not in source.dims]
    if unknown or not given:
        raise DSLError(
            f"{what} of {source.name!r} over {', '.join(unknown) or 'no dimension'}: it has the dimensions "
            f"{', '.join(source.dims)}",
            location=caller_location(),
        )
    if len(source.dtypes) != 1:
        raise DSLError(f"{what} of {source.name!r}, which has several values at each point", location=caller_location())
    return [d for d in source.dims if d in given]
