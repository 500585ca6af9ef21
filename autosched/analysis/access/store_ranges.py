"""Ranges of the integers that Funcs store, for indices that read them.

    bin[y, x] = clamp(cast(int32, v[y, x]), 0, 15)
    count[bin[r.y, r.x]] += 1                           the index lies in [0, 15]

The coordinates that argmax and argmin return lie in the ranges of their loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.analysis.indices import index as ix
from autosched.analysis.indices.exact_integers import is_exact_integer
from autosched.analysis.indices.to_index import to_index
from autosched.lang.dtypes import DType
from autosched.lang.expr import Binary, Cast, Expr, Load, Source, Unary, postorder, walk
from autosched.lang.func import Definition, Func

Ranges = tuple[ix.Interval | None, ...]
"""Inclusive range of each component of a Func; None where only the type bounds it."""


class StoredRanges:
    """Ranges of the values of Funcs, added in topological order."""

    def __init__(self) -> None:
        self._ranges: dict[Source, Ranges] = {}

    def add(self, func: Func, definitions: Sequence[Definition]) -> None:
        """Add a Func.

        Args:
            func: The Func.
            definitions: Its definitions with constant shapes and parameters.
        """
        if not any(d.is_int for d in func.dtypes):
            return
        ranges: Ranges | None = None
        for d in definitions:
            if d.values and all(int(r.lower.value) < int(r.upper.value) for r in d.rvars):  # type: ignore[attr-defined]
                ranges = self._after(func, d, ranges)
        if ranges is not None and any(r is not None for r in ranges):
            self._ranges[func] = ranges

    def seeded(self, definition: Definition, own: Mapping[Source, Ranges] | None = None) -> dict[int, ix.Index]:
        """Return the indices of a definition's reads of Funcs with known ranges, by ``id`` of the read.

        Args:
            definition: The definition.
            own: Ranges of further Funcs.
        """
        ranges = self._ranges if own is None else {**self._ranges, **own}
        memo: dict[int, ix.Index] = {}
        for e in walk(*definition.indices, *definition.values):
            if isinstance(e, Load) and e.source in ranges:
                bounds = ranges[e.source][e.component]
                if bounds is not None:
                    memo[id(e)] = ix.data(e, *bounds, text=str(len(memo)))
        return memo

    def _after(self, func: Func, d: Definition, before: Ranges | None) -> Ranges | None:
        """Return the ranges after a definition, given those before."""
        reads_itself = any(isinstance(e, Load) and e.source is func for e in walk(*d.indices, *d.values))
        if not reads_itself:
            return _hull(before, self._values(d, func.dtypes, {}))
        if before is None:
            return None
        ranges: Ranges = before
        for _ in range(2):  # selections, minima and maxima of bounded values change nothing the second time
            after = _hull(ranges, self._values(d, func.dtypes, {func: ranges}))
            if after == ranges:
                return ranges
            ranges = after
        last = _hull(ranges, self._values(d, func.dtypes, {func: ranges}))
        return tuple(r if r == s else None for r, s in zip(ranges, last, strict=True))

    def _values(self, d: Definition, dtypes: Sequence[DType], own: Mapping[Source, Ranges]) -> Ranges:
        memo = self.seeded(d, own)
        return tuple(_range(value, dtype, memo) for value, dtype in zip(d.values, dtypes, strict=True))


def _range(value: Expr, dtype: DType, memo: dict[int, ix.Index]) -> ix.Interval | None:
    """Return the range of a value at any coordinates, None where its type has no smaller one."""
    if not dtype.is_int:
        return None
    lo, hi = ix.interval(to_index(value, memo))
    if lo < dtype.min_value or hi > dtype.max_value or (lo, hi) == (dtype.min_value, dtype.max_value):
        return None
    return None if _may_wrap(value, memo) else (lo, hi)


def _may_wrap(value: Expr, memo: Mapping[int, ix.Index]) -> bool:
    """Whether arithmetic that indices treat as exact may wrap far from the origin."""
    seen: dict[int, Expr] = {}
    for e in postorder([value], seen):
        seen[id(e)] = e
        if e.weak or not isinstance(e, Binary | Unary | Cast) or id(e) not in memo:
            continue
        lo, hi = ix.interval(memo[id(e)])
        if (lo < e.dtype.min_value or hi > e.dtype.max_value) and not is_exact_integer(e):
            return True
    return False


def _hull(a: Ranges | None, b: Ranges) -> Ranges:
    if a is None:
        return b
    return tuple(
        None if p is None or q is None else (min(p[0], q[0]), max(p[1], q[1])) for p, q in zip(a, b, strict=True)
    )
