"""Int32 expressions of coordinates, which are exact (`autosched.analysis.indices.integer_widths`)."""

from __future__ import annotations

from autosched.lang.dtypes import DType, int32, int64
from autosched.lang.expr import Binary, Cast, Const, Expr, Select, Unary, children

NARROW_BITS = 16


def is_exact_integer(e: Expr) -> bool:
    """Return whether an int32 expression consists of coordinates, constants and integers of at most 16 bits."""
    if e.dtype != int32 or e.weak:
        return False
    has_coordinate = False
    seen: set[int] = set()
    stack = [e]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        match node:
            case Const():
                continue
            case Cast(a=a) if a.weak:
                has_coordinate = True
            case Cast(a=a) if is_narrow(a.dtype):
                continue
            case Select() if node.dtype == int32:
                stack += [node.t, node.f]
            case Unary() | Binary() if node.dtype == int32:
                stack += children(node)
            case _:
                return False
    return has_coordinate


def is_count(lo: int, hi: int, *, exact: bool) -> bool:
    """Return whether a shift of an exact integer by these counts is exact; typed counts are modulo 32.

    Args:
        lo: Least count.
        hi: Greatest count.
        exact: Whether the count depends on coordinates.
    """
    return 0 <= lo <= hi < (int64.bits - 1 if exact else int32.bits)


def is_narrow(dtype: DType) -> bool:
    """Return whether a type is bool or an integer of at most 16 bits."""
    return dtype.kind == "b" or (dtype.is_int and dtype.bits <= NARROW_BITS)
