"""Checks of the indices, values and ranges of a definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosched.errors import DSLError
from autosched.lang.dtypes import DType
from autosched.lang.expr import Binary, Cast, Const, Expr, ExprLike, Param, RVar, Select, ShapeDim, Unary, Var, walk
from autosched.lang.operators import as_expr, common_dtype
from autosched.lang.source_location import SourceLocation, caller_location

Index = ExprLike | tuple[ExprLike, ...]
_BOUND_WITH_SHAPES = Const | ShapeDim | Param | Unary | Binary | Select | Cast


def as_index(index: Index, ndim: int, what: str) -> tuple[Expr, ...]:
    """Return an index as a tuple of integer expressions.

    Raises:
        DSLError: For a wrong number of indices or a non-integer index.
    """
    indices = tuple(as_expr(i) for i in (index if isinstance(index, tuple) else (index,)))
    if len(indices) != ndim:
        raise DSLError(
            f"{what} has {ndim} dimension{'s' * (ndim != 1)} but is indexed with {len(indices)}",
            location=caller_location(),
        )
    for i in indices:
        if not i.dtype.is_int:
            raise DSLError(
                f"{what} is indexed with {i!r} of type {i.dtype}",
                location=caller_location(),
                hint="use // for integer division, or cast(int32, e)",
            )
    return indices


def known_range(given: Any, what: str) -> tuple[Expr, Expr]:
    """Return a half-open range ``(low, high)`` whose ends become integers with shapes and parameters.

    Args:
        given: The user's value.
        what: Owner of the range, for messages.

    Raises:
        DSLError: If the value is no pair, or an end is a float or depends on a loop or on data.
    """
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise DSLError(
            f"the range of {what} is {given!r}, not a pair", location=caller_location(), hint="write (low, high)"
        )
    low, high = (as_expr(e) for e in given)
    for e in (low, high):
        constant = all(isinstance(n, _BOUND_WITH_SHAPES) and not n.dtype.is_float for n in walk(e))
        if not constant or not e.dtype.is_int:
            raise DSLError(
                f"bound {e!r} of {what} is not an integer that follows from shapes and parameters",
                location=caller_location(),
                hint="use integers, img.shape[i], integer Params and integer arithmetic on them",
            )
    return low, high


def check_stored(value: Expr, dtype: DType) -> None:
    """Raise unless an update may store a value in a Func's type; floats convert to integers as by a cast."""
    if isinstance(value, Const) and value.weak and value.dtype.is_float and dtype.is_int:
        raise DSLError(
            f"the float constant {value.value} cannot be stored in a Func of {dtype}",
            location=caller_location(),
            hint="cast it, or define the Func with a float",
        )
    common_dtype(value, Const(0, dtype))


def collect_rvars(roots: Sequence[Expr], also: Sequence[RVar] = ()) -> tuple[RVar, ...]:
    """Return the reduction loops of some expressions, in the order of their domains.

    Args:
        roots: The expressions.
        also: Loops to run even if no expression depends on them.
    """
    used = [*also, *(n for root in roots for n in walk(root) if isinstance(n, RVar))]
    return tuple(sorted(dict.fromkeys(used), key=lambda v: v.order))


def check_free_vars(name: str, roots: Sequence[Expr], allowed: set[str], location: SourceLocation | None) -> None:
    """Raise for a Var that is no dimension of the Func."""
    for root in roots:
        for node in walk(root):
            if isinstance(node, Var) and node.name not in allowed:
                raise DSLError(
                    f"the definition of {name!r} uses Var {node.name!r}, which is not among its dimensions "
                    f"({', '.join(sorted(allowed)) or 'none'})",
                    location=location,
                    hint="give the Func that dimension, or reduce over it: autosched.sum(e, over=RDom(...))",
                )
