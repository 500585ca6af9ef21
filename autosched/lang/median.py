"""The median of a window as a network of minima and maxima.

    smooth = median(image.clamped(), y=3, x=3)

Columns of the window are sorted first, in a Func of their own that neighbouring windows share. Rows of the sorted
columns are sorted next, and a network over the elements that can still be the median selects it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autosched.errors import DSLError
from autosched.lang.dtypes import bool_
from autosched.lang.expr import Expr, Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import max as larger
from autosched.lang.functions import min as smaller
from autosched.lang.selection_network import Comparator, merge_exchange, selection_network, sorted_median_network
from autosched.lang.source_location import caller_location

LARGEST = 7
"""Most elements of a window in one dimension."""


def median(source: Func | Input, *, name: str = "median", **window: int) -> Func:
    """Return the median of a window around each point.

    Args:
        source: An array or Func with one value at each point, with a boundary condition where windows reach beyond it.
        name: Name of the Func.
        window: Elements of the window by dimension of the source, 1, 3, 5 or 7, in at most two dimensions.

    Returns:
        A Func over the dimensions of the source. Where a window holds NaNs, its value is open.

    Raises:
        DSLError: For another number of elements, other dimensions, bools, or a source with several values.
    """
    sizes = _sizes(source, window)
    dims = [d for d in source.dims if sizes.get(d, 1) > 1]
    point = tuple(Var(d) for d in source.dims)

    def at(shifts: dict[str, int]) -> tuple[Expr, ...]:
        return tuple(v + shifts[v.name] if shifts.get(v.name) else v for v in point)

    result = Func(name)
    if len(dims) < 2:
        n = sizes[dims[0]] if dims else 1
        row = [source[at({d: k - n // 2 for d in dims})] for k in range(n)]
        result[point] = _after(selection_network(n, (n // 2,)), row)[n // 2]
        return result
    outer, inner = dims
    rows, columns = sizes[outer], sizes[inner]
    column = Func(f"{name}_columns")
    column[point] = tuple(_after(merge_exchange(rows), [source[at({outer: k - rows // 2})] for k in range(rows)]))
    across = [column[at({inner: k - columns // 2})] for k in range(columns)]
    elements, network, target = sorted_median_network(rows, columns)
    ranks = [tuple(sorted(j for k, j in elements if k == i)) for i in range(rows)]
    matrix = [_after(selection_network(columns, ranks[i]), [across[j][i] for j in range(columns)]) for i in range(rows)]
    result[point] = _after(network, [matrix[i][j] for i, j in elements])[target]
    return result


def _after(network: Sequence[Comparator], values: Sequence[Expr]) -> list[Expr]:
    """Return the wires after a network."""
    wires = list(values)
    for i, j in network:
        wires[i], wires[j] = smaller(wires[i], wires[j]), larger(wires[i], wires[j])
    return wires


def _sizes(source: Func | Input, window: dict[str, int]) -> dict[str, int]:
    """Return the checked elements of the window by dimension."""
    unknown = set(window) - set(source.dims)
    if unknown or not window:
        raise DSLError(
            f"median of {source.name!r} over {', '.join(sorted(unknown)) or 'no dimension'}: "
            f"it has the dimensions {', '.join(source.dims)}",
            location=caller_location(), hint=f"give a window such as {source.dims[-1] if source.dims else 'x'}=3",
        )  # fmt: skip
    for dim, n in window.items():
        if not isinstance(n, int) or n % 2 == 0 or not 1 <= n <= LARGEST:
            raise DSLError(
                f"median of {source.name!r} over {n} elements in {dim}", location=caller_location(),
                hint=f"a window has 1, 3, 5 or {LARGEST} elements in each dimension",
            )  # fmt: skip
    if sum(n > 1 for n in window.values()) > 2:
        raise DSLError(
            f"median of {source.name!r} over {math.prod(window.values())} elements in {len(window)} dimensions",
            location=caller_location(), hint="a window extends in one or two dimensions",
        )  # fmt: skip
    if len(source.dtypes) != 1 or source.dtypes[0] == bool_:
        kinds = ", ".join(d.name for d in source.dtypes)
        raise DSLError(
            f"median of {source.name!r}, which has values of {kinds}", location=caller_location(),
            hint="the source has one number at each point; cast bools to uint8",
        )  # fmt: skip
    return window
