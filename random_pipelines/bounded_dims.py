"""Which dimensions of a Func may not be left: those that reach an input's without a boundary condition between."""

from __future__ import annotations

from collections.abc import Iterator

from autosched.lang.expr import Binary, Expr, Load, Source, Var, children, walk
from autosched.lang.func import Func

_BOUNDING = frozenset({"min", "max", "mod"})
"""Operations inside of which a coordinate cannot leave a range, in the indices that are generated here."""


class BoundedDims:
    """Finds closed dimensions, and remembers those of every Func it has seen."""

    def __init__(self) -> None:
        self._known: dict[Func, frozenset[str]] = {}

    def of(self, source: Source) -> frozenset[str]:
        """Return the dimensions in which a Func or Input may be read inside its shape only."""
        if not isinstance(source, Func):
            return frozenset(source.dims)
        if source not in self._known:
            self._known[source] = frozenset()  # its own updates read it where they write
            roots = (e for d in source.definitions for e in (*d.values, *d.indices))
            loads = (node for root in roots for node in walk(root) if isinstance(node, Load))
            self._known[source] = frozenset(v for load in loads for v in self._followed(load))
        return self._known[source]

    def _followed(self, load: Load) -> Iterator[str]:
        """Yield the Vars that an index of a closed dimension follows."""
        closed = self.of(load.source)
        for d, index in zip(load.source.dims, load.indices, strict=True):
            if d in closed:
                yield from _free_vars(index)


def _free_vars(index: Expr) -> Iterator[str]:
    """Yield the Vars of an index that stand outside of clamps, remainders and reads."""
    pending = [index]
    while pending:
        e = pending.pop()
        if isinstance(e, Var):
            yield e.name
        elif not isinstance(e, Load) and not (isinstance(e, Binary) and e.op in _BOUNDING):
            pending.extend(children(e))
