"""Binding with what conditions and stored values imply about indices that depend on data."""

from __future__ import annotations

from collections.abc import Mapping

from autosched.analysis.access.read_guards import guard_reads
from autosched.analysis.access.store_ranges import StoredRanges
from autosched.analysis.arguments import Shapes
from autosched.analysis.binder import Binder, NarrowBinder
from autosched.analysis.indices import index as ix
from autosched.lang.expr import Expr, Scalar
from autosched.lang.func import Definition, Func
from autosched.lang.pipeline import Pipeline


class GuardedBinder(Binder):
    """Binds reads that a condition guards, and indices whose ranges follow from the values that a Func stores.

    Pipelines that bind without these keep their definitions, and so their kernels.
    """

    def __init__(self, pipeline: Pipeline, shapes: Shapes, params: Mapping[str, Scalar]) -> None:
        self._stored = StoredRanges()
        self._plain: dict[Func, list[Definition]] = {}
        self._written: dict[int, Expr] = {}
        self._keep: list[Definition] = []  # so that ids stay unique
        super().__init__(pipeline, shapes, params)

    def definition(self, func: Func, number: int) -> Definition:
        """Return a definition with clamped indices of guarded reads."""
        if func not in self._plain:
            numbers = range(len(func.definitions))
            self._plain[func] = [super(GuardedBinder, self).definition(func, k) for k in numbers]
            self._stored.add(func, self._plain[func])
        plain = self._plain[func][number]
        guarded = guard_reads(func, plain, self.seeded(plain), self._written)
        self._keep.append(guarded)
        return guarded

    def as_written(self, e: Expr) -> Expr:
        """Return an index of a read without the clamp of its guard."""
        return self._written.get(id(e), e)

    def unguarded(self, func: Func) -> list[Definition]:
        """Return the definitions of a Func without clamps of guarded reads."""
        return self._plain[func]

    def seeded(self, definition: Definition) -> dict[int, ix.Index]:
        """Return the indices of reads of Funcs with known ranges."""
        return self._stored.seeded(definition)


class NarrowGuardedBinder(GuardedBinder, NarrowBinder):
    """As `GuardedBinder`, with the ranges of coordinates."""
