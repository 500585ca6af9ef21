"""Integer operations that would become exact: those whose operands have ranges, and whose results leave their type.

Data of 32 bits and more have no range, so that operations on them wrap. Where a rewrite gives such data a range, as a
narrow type or a constant does, operations with coordinates are evaluated exactly (`docs/reference/types.md`). Results
differ if the exact range does not fit the type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from autosched.analysis.expressions.interval_arithmetic import ValueRange, integer_range, type_range
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
        case Var() | RVar():
            return ValueRange(*spans[e.name]) if e.name in spans else None
        case Load():
            dtype = type_of(e)
            return type_range(dtype) if dtype.bits <= _RANGED_BITS else None
        case Cast() if parts[0] is None:
            return type_range(e.dtype) if e.dtype.bits <= _RANGED_BITS else None
        case Select():
            parts = parts[1:]
        case Binary(op="min" | "max") if parts != [None, None]:  # one operand is a bound of the other
            parts = [type_range(e.dtype) if p is None else p for p in parts]
    known = [p for p in parts if p is not None]
    if len(known) < len(parts) or not isinstance(e, Const | Cast | Select | Unary | Binary):
        return None
    match e:
        case Binary(op="shl") if 0 <= known[1].lo <= known[1].hi < e.dtype.bits:
            ends = [int(n) << int(k) for n in known[0][:2] for k in known[1][:2]]
            return ValueRange(min(ends), max(ends))
    found = integer_range(e, known)
    return type_range(e.dtype) if found is None else found
