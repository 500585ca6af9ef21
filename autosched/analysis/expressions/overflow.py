"""Integer operations that would become exact: those whose operands have ranges, and whose results leave their type.

Data of 32 bits and more have no range, so that operations on them wrap. Where a rewrite gives such data a range, as a
narrow type or a constant does, operations with coordinates are evaluated exactly (`docs/reference/types.md`). Results
differ if the exact range does not fit the type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from autosched.analysis.expressions.interval_arithmetic import ValueRange, integer_binary_range, type_range
from autosched.lang.dtypes import DType
from autosched.lang.expr import Binary, Cast, Const, Expr, Load, RVar, Select, Unary, Var, children, postorder

_RANGED_BITS = 16
"""Bits of the widest types whose data have the range of the type."""
Spans = Mapping[str, tuple[int, int]]


def has_overflow(roots: Iterable[Expr], spans: Spans, type_of: Callable[[Load], DType]) -> bool:
    """Return whether an operation with operands of known ranges may leave its type.

    Args:
        roots: Expressions of a stage; indices of loads are included.
        spans: Inclusive range of each loop, by name.
        type_of: Returns the type of a loaded element after the rewrite.
    """
    ranges: dict[int, ValueRange | None] = {}
    kept = list(roots)  # ids stay unique
    for e in postorder(kept, ranges):
        parts = [ranges[id(c)] for c in children(e)]
        found = _exact_range(e, parts, spans, type_of)
        wraps = e.dtype.is_int and not e.weak and found is not None and not found.fits(e.dtype)
        if wraps and e.dtype.bits > _RANGED_BITS and not isinstance(e, Cast):
            return True
        ranges[id(e)] = type_range(e.dtype) if wraps else found
    return False


def _exact_range(
    e: Expr, parts: list[ValueRange | None], spans: Spans, type_of: Callable[[Load], DType]
) -> ValueRange | None:
    """Return the exact range of an integer; None if it is unknown."""
    match e:
        case _ if not e.dtype.is_int:
            return None
        case Const():
            return ValueRange(int(e.value), int(e.value))
        case Var() | RVar():
            return ValueRange(*spans[e.name]) if e.name in spans else None
        case Load():
            dtype = type_of(e)
            return type_range(dtype) if dtype.bits <= _RANGED_BITS else None
        case Cast():
            return parts[0] if parts[0] is not None else type_range(e.dtype) if e.dtype.bits <= _RANGED_BITS else None
        case Select():
            then, other = parts[1:]
            return None if then is None or other is None else then.hull(other)
        case Unary(op="neg"):
            return None if parts[0] is None else ValueRange(-parts[0].hi, -parts[0].lo)
        case Unary(op="abs"):
            return None if parts[0] is None else ValueRange(0, max(abs(parts[0].lo), abs(parts[0].hi)))
        case Binary(op="shl"):
            a, b = parts
            if a is None or b is None or not 0 <= b.lo <= b.hi < 64:
                return None
            ends = [int(n) << int(k) for n in (a.lo, a.hi) for k in (b.lo, b.hi)]
            return ValueRange(min(ends), max(ends))
        case Binary():
            a, b = parts
            return None if a is None or b is None else integer_binary_range(e, a, b)
    return None
