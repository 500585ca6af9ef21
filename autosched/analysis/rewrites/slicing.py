"""Slices of Funcs: a Func that is read at constants of one dimension becomes one Func for each of them.

    g[k, x] = a[x - k]                                  g_k4[x] = a[x - 4]
    f[x] = g[4, x] + g[9, x + 1] + g[4, x + 2]    ->    g_k9[x] = a[x - 9]
                                                        f[x] = g_k4[x] + g_k9[x + 1] + g_k4[x + 2]

An update of one slice belongs to that slice alone. One that writes a range of points without reading its own slice is
merged into the pure definition, so that consumers can inline the slice and compute it for their tiles:

    g[1, r] = g[0, r] + g[0, r + 1]  over 0 <= r < n  ->  g_k1[x] = select(0 <= x < n, g_k0[x] + g_k0[x + 1], a[x])

Slices that cost no more where they are read are substituted there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property, reduce

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.constant_substitution import ConstantSubstitution, Reads, constant_integer
from autosched.analysis.rewrites.rebuild import Replacement, fresh_name, rebuild_pipeline
from autosched.analysis.specialise import Specialiser
from autosched.lang.dtypes import int32
from autosched.lang.expr import Binary, Const, Expr, Load, RVar, Select, Var, children, walk
from autosched.lang.func import Definition, Func, Input
from autosched.lang.pipeline import producers_of

MOST_SLICES = 64
"""Most slices of a Func."""
STORE_COST = 3
"""Cost of another Func, in operations of a point: its store, and its elements beyond the edges of blocks."""


def slice_funcs(tables: BoundPipeline, bound: BoundPipeline, func: Func) -> BoundPipeline:
    """Return a pipeline with slices of all Funcs that a Func depends on and that are read at constants alone.

    Args:
        tables: A pipeline with the same tables of constants.
        bound: The pipeline.
        func: The Func.
    """
    while (sliced := _next_sliced(tables, bound, func)) is not None:
        bound, replaced = sliced.rebuilt()
        func = replaced.get(func, func)
    return bound


def _next_sliced(tables: BoundPipeline, bound: BoundPipeline, func: Func) -> _SlicedFunc | None:
    outputs = {o.func for o in bound.pipeline.outputs}
    above = _producers(func)
    for f in reversed(bound.pipeline.funcs):
        if f not in above or f in outputs or f.boundary is not None or f.atomic or not f.definitions[0].values:
            continue
        for axis in range(f.ndim) if f.ndim > 1 else ():
            sliced = _SlicedFunc(tables, bound, f, axis)
            if sliced.is_legal:
                return sliced
    return None


def _producers(func: Func) -> set[Func]:
    """Return the Funcs on which a Func depends."""
    found, stack = set[Func](), [func]
    while stack:
        new = [p for p in producers_of(stack.pop()) if isinstance(p, Func) and p not in found]
        found.update(new)
        stack += new
    return found - {func}


class _SlicedFunc:
    """Slices of a Func, by the constants of one dimension at which it is read.

    Args:
        tables: A pipeline with the tables of constants.
        bound: The pipeline.
        func: The Func.
        axis: The dimension.
    """

    def __init__(self, tables: BoundPipeline, bound: BoundPipeline, func: Func, axis: int) -> None:
        self._bound, self._func, self._axis = bound, func, axis
        self._substitution = ConstantSubstitution(tables)
        self._specialiser = Specialiser(bound.shapes, bound.specialised)
        self._slices: dict[int, Func] = {}
        self._inlined: dict[int, Definition] = {}

    @cached_property
    def is_legal(self) -> bool:
        """Whether all reads and updates are at constants, in an order that separate Funcs keep."""
        reads = self._reads_by_consumers
        written = [self._written(d) for d in self._func.definitions]
        if not reads or None in reads or None in written[1:]:
            return False
        return len(self._definitions) <= MOST_SLICES and all(map(self._is_ordered, self._definitions))

    def rebuilt(self) -> tuple[BoundPipeline, dict[Func, Func]]:
        """Return the pipeline with the slices, and the Funcs that replace their consumers."""
        replaced: dict[Func, Func] = {}

        def reads(load: Load, operands: Sequence[Expr]) -> Expr | None:
            if load.source is self._func:
                return self._read(load, operands)
            if isinstance(load.source, Func) and load.source in replaced:
                return Load(replaced[load.source], tuple(operands), load.dtype, load.component)
            return None

        for f in self._bound.pipeline.funcs:
            if f is not self._func and any(p is self._func or p in replaced for p in producers_of(f)):
                new = Func(f.name)
                new.location, new._dtypes, new.atomic = f.location, f.dtypes, f.atomic
                new.boundary, new.boundary_ranges = f.boundary, f.boundary_ranges
                replaced[f] = new
                new._definitions += [self._with_reads(d, reads) for d in f.definitions]
        replacements: dict[Func | Input, Replacement] = {old: Replacement(new) for old, new in replaced.items()}
        return rebuild_pipeline(self._bound, replacements).bound, replaced

    def _with_reads(self, d: Definition, reads: Reads) -> Definition:
        new = self._substitution((*d.indices, *d.values), {}, reads)
        return Definition(new[: len(d.indices)], new[len(d.indices) :], d.rvars, d.location)

    def _read(self, load: Load, operands: Sequence[Expr]) -> Expr:
        """Return a read of a slice, or its value there."""
        number = constant_integer(operands[self._axis])
        assert number is not None
        point = [*operands[: self._axis], *operands[self._axis + 1 :]]
        self._make(number)
        if number not in self._inlined:
            return Load(self._slices[number], tuple(point), load.dtype, load.component)
        pure = self._inlined[number]
        value, coordinates = pure.values[load.component], dict(zip(_names(pure.indices), point, strict=True))
        table = {id(v): coordinates[v.name] for v in walk(value) if isinstance(v, Var)}
        return self._substitution([value], table, lambda *_: None)[0]

    def _make(self, number: int) -> None:
        """Make a slice, after the slices that it reads."""
        if number in self._slices or number in self._inlined:
            return
        dim = self._func.dims[self._axis]
        label = f"{self._func.name}_{dim}{number}".replace("-", "m")
        new = Func(
            fresh_name(label, {*self._bound.funcs, *self._bound.inputs, *(f.name for f in self._slices.values())})
        )
        new.location, new._dtypes = self._func.location, self._func.dtypes

        def reads(load: Load, operands: Sequence[Expr]) -> Expr | None:
            if load.source is not self._func:
                return None
            if constant_integer(operands[self._axis]) != number:
                return self._read(load, operands)
            return Load(new, (*operands[: self._axis], *operands[self._axis + 1 :]), load.dtype, load.component)

        definitions = [self._with_reads(d, reads) for d in self._definitions[number]]
        if len(definitions) == 1 and self._is_cheap(number, definitions[0]):
            self._inlined[number] = definitions[0]
            return
        new._definitions += definitions
        self._slices[number] = new

    def _is_cheap(self, number: int, pure: Definition) -> bool:
        """Whether a slice costs no more where it is read."""
        cost, reads = _operations(pure.values), self._read_counts[number]
        return reads * cost <= cost + reads + STORE_COST

    @cached_property
    def _reads_by_consumers(self) -> Counter[int | None]:
        """Number of reads by other Funcs at each constant; None stands for other reads."""
        found: Counter[int | None] = Counter()
        for f in self._bound.pipeline.funcs:
            if f is not self._func:
                found.update(n for d in f.definitions for n in self._numbers_read(d))
        return found

    def _numbers_read(self, d: Definition) -> Iterator[int | None]:
        for load in walk(*d.indices, *d.values):
            if isinstance(load, Load) and load.source is self._func:
                yield constant_integer(load.indices[self._axis])

    def _written(self, d: Definition) -> int | str | None:
        """Return the slice that a definition writes, its Var for all slices; None if it is not constant."""
        at = d.indices[self._axis]
        return at.name if isinstance(at, Var) else constant_integer(at)

    @cached_property
    def _numbered(self) -> dict[int, list[tuple[int, Definition]]]:
        """The definitions of each slice that is read, with their numbers; they read the Func."""
        found: dict[int, list[tuple[int, Definition]]] = {}
        pending = [n for n in self._reads_by_consumers if n is not None]
        while pending and len(found) <= MOST_SLICES:
            number = pending.pop()
            if number in found:
                continue
            found[number] = list(self._definitions_of(number))
            pending += [n for _, d in found[number] for n in self._numbers_read(d) if n is not None]
        return found

    def _definitions_of(self, number: int) -> Iterator[tuple[int, Definition]]:
        for k, unbound in enumerate(self._func.definitions):
            d = self._specialiser.definition(unbound)
            written = self._written(d)
            if written not in (number, self._func.dims[self._axis]):
                continue
            table: dict[int, Expr] = {}
            if isinstance(written, str):
                nodes = (n for n in walk(*d.indices, *d.values) if isinstance(n, Var) and n.name == written)
                table = {id(n): Const(number, int32, weak=True) for n in nodes}
            indices = (*d.indices[: self._axis], *d.indices[self._axis + 1 :])
            new = self._substitution((*indices, *d.values), table, lambda *_: None)
            yield k, Definition(new[: len(indices)], new[len(indices) :], d.rvars, d.location)

    @cached_property
    def _definitions(self) -> dict[int, list[Definition]]:
        """The definitions of each slice that is read, merged where possible."""
        return {number: self._merged(number, [d for _, d in ds]) for number, ds in self._numbered.items()}

    @cached_property
    def _read_counts(self) -> Counter[int | None]:
        return self._reads_by_consumers + Counter(
            n for ds in self._definitions.values() for d in ds for n in self._numbers_read(d)
        )

    def _is_ordered(self, number: int) -> bool:
        """Whether a slice reads other slices only after their last update."""
        last = {n: ds[-1][0] for n, ds in self._numbered.items()}
        return all(
            n is not None and (n == number or last[n] < k)
            for k, d in self._numbered[number]
            for n in self._numbers_read(d)
        )

    def _merged(self, number: int, definitions: list[Definition]) -> list[Definition]:
        """Return one pure definition, if each update writes a range of points and reads no own point."""
        first, *updates = definitions
        if any(number in self._numbers_read(d) or not _is_range(d, first) for d in updates):
            return definitions
        return [reduce(self._with_update, updates, first)]

    def _with_update(self, first: Definition, update: Definition) -> Definition:
        table: dict[int, Expr] = {}
        inside: list[Expr] = []
        for var, at in zip(first.indices, update.indices, strict=True):
            if isinstance(at, RVar):
                table[id(at)] = var
                inside += [var >= at.lower, var < at.upper]
        values = self._substitution(update.values, table, lambda *_: None)
        if inside:
            condition = reduce(lambda a, b: Binary("and", a, b, a.dtype), inside)
            values = tuple(
                Select(condition, new, old, new.dtype) for new, old in zip(values, first.values, strict=True)
            )
        return Definition(first.indices, values, (), first.location)


def _names(indices: Sequence[Expr]) -> list[str]:
    return [i.name if isinstance(i, Var) else "" for i in indices]


def _is_range(update: Definition, first: Definition) -> bool:
    """Whether an update writes each of its points once, in any order: its loops are its indices."""
    loops = [i for i in update.indices if isinstance(i, RVar)]
    own = all(
        isinstance(i, RVar) or (isinstance(i, Var) and isinstance(v, Var) and i.name == v.name)
        for i, v in zip(update.indices, first.indices, strict=True)
    )
    return own and len({id(i) for i in loops}) == len(loops) and {id(i) for i in loops} == {id(r) for r in update.rvars}


def _operations(values: Sequence[Expr]) -> int:
    """Return the number of distinct loads and operations of values, without those of indices."""
    seen, stack, count = set[int](), list(values), 0
    while stack:
        e = stack.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        operands = () if isinstance(e, Load) else children(e)
        count += isinstance(e, Load) or bool(operands)
        stack += operands
    return count
