"""Bounded dimensions of Funcs: they index an input without a boundary condition, so reads must stay in the shape."""

from __future__ import annotations

from collections.abc import Iterator

from autosched.lang.expr import Binary, Expr, Load, Source, Var, children, walk
from autosched.lang.func import Func

_BOUNDING = frozenset({"min", "max", "mod"})
"""Operations that keep a coordinate in a range, in the generated indices."""


class BoundedDims:
    """The bounded dimensions of Funcs, with a cache."""

    def __init__(self) -> None:
        self._cache: dict[Func, frozenset[str]] = {}

    def of(self, source: Source) -> frozenset[str]:
        """Return the dimensions in which a Func or Input may be read only inside its shape."""
        if not isinstance(source, Func):
            return frozenset(source.dims)
        if source not in self._cache:
            self._cache[source] = frozenset()  # self-reads are at the written point
            roots = (e for d in source.definitions for e in (*d.values, *d.indices))
            loads = (node for root in roots for node in walk(root) if isinstance(node, Load))
            self._cache[source] = frozenset(v for load in loads for v in self._bounded_vars(load))
        return self._cache[source]

    def _bounded_vars(self, load: Load) -> Iterator[str]:
        """Yield the free Vars in the indices of bounded dimensions."""
        bounded = self.of(load.source)
        for d, index in zip(load.source.dims, load.indices, strict=True):
            if d in bounded:
                yield from _free_vars(index)


def _free_vars(index: Expr) -> Iterator[str]:
    """Yield the Vars of an index outside of clamps, remainders and loads."""
    seen: set[int] = set()
    pending = [index]
    while pending:
        e = pending.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        if isinstance(e, Var):
            yield e.name
        elif not isinstance(e, Load) and not (isinstance(e, Binary) and e.op in _BOUNDING):
            pending.extend(children(e))
