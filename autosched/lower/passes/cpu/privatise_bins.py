"""Accumulate consecutive terms of a histogram in private copies of its bins (array privatisation), for the C backend.

Neighbouring terms often fall into the same bin. The load of a term then waits for the store of the one before. With
copies, only every fourth term can wait.

Rewrite, for n bins:
    for r < 4*m + k: { let a = x[r]; h[a] = h[a] + 1 }
    ->  bins[3*n] = 0
        for r4 < m: { h[x[4*r4]] += 1; bins[x[4*r4 + 1]] += 1; bins[n + x[4*r4 + 2]] += 1; ... }
        for r < k: h[x[4*m + r]] += 1
        for b < n: h[b] = h[b] + bins[b] + bins[n + b] + bins[2*n + b]

Legal for associative and commutative updates of integers by values that do not depend on the bins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from autosched.analysis.access.accumulation import identity
from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.lower.ir import (
    Alloc,
    Body,
    Buffer,
    BufferRead,
    ConstValue,
    For,
    Let,
    LetIndex,
    LoopRole,
    Memory,
    Op,
    Stmt,
    Store,
    Value,
    VarRef,
    walk_values,
)
from autosched.lower.ir_queries import names_in_indices, names_used, reads_in, value_key
from autosched.lower.passes.unroll import unroll
from autosched.schedule import cpu_policy

OPERATORS = frozenset({"add", "min", "max", "and", "or", "xor"})
"""Operators of updates whose order does not matter for integers."""


@dataclass(frozen=True)
class _Histogram:
    """An update of one of a few bins by each iteration of a nest of loops.

    Attributes:
        loops: The loops, the outermost first; the body of each but the last is the next one.
        store: The update.
        term: The value that is combined with the bin.
        first: The first bin, which no loop changes.
        bin_number: Number of the bin, counted from it.
        bins: Number of bins.
    """

    loops: tuple[For, ...]
    store: Store
    term: Value
    first: ix.Index
    bin_number: ix.Index
    bins: int

    @property
    def operator(self) -> str:
        """Operator of the update."""
        assert isinstance(self.store.value, Op)
        return self.store.value.name


def privatise_bins(loop: For, namer: Namer) -> Body:
    """Return the statements that replace a loop; nothing unless it computes a histogram of few bins from many terms.

    Args:
        loop: A serial loop outside of lane loops.
        namer: Returns names that are new in the kernel.
    """
    histogram = _histogram(loop)
    if histogram is None:
        return ()
    innermost, copies = histogram.loops[-1], cpu_policy.BIN_COPIES
    groups, left = divmod(innermost.extent, copies)
    store, bins = histogram.store, histogram.bins
    private = Buffer(namer(store.buffer.name, "bins"), store.buffer.dtype, (copies - 1) * bins, Memory.REGISTER)
    group, term = namer(innermost.name), namer(innermost.name)
    position = ix.add(ix.scale(ix.var(group, 0, groups - 1), copies), ix.var(term, 0, copies - 1))
    steps: list[Stmt] = []
    for k in range(copies):
        copy = _with_copy(histogram, private, k)
        one = For(term, 1, LoopRole.UNROLLED, (LetIndex(innermost.name, ix.substitute(position, {term: k})), *copy))
        straight = unroll(one, namer)
        if straight is None or len(straight.stages) != 1:
            return ()
        steps += straight.stages[0].statements
    comment = f"{innermost.comment}, {copies} together"
    inner: list[Stmt] = [replace(innermost, name=group, extent=groups, body=tuple(steps), comment=comment)]
    if left:
        rest = LetIndex(innermost.name, ix.add(ix.var(term, 0, left - 1), groups * copies))
        inner.append(replace(innermost, name=term, extent=left, body=(rest, *innermost.body)))
    for outer in reversed(histogram.loops[:-1]):
        inner = [replace(outer, body=(*outer.body[:-1], *inner))]
    start = ConstValue(identity(histogram.operator, private.dtype).value, private.dtype)
    return (
        Alloc(private),
        _over_bins(private.count, namer, lambda at: Store(private, at, start, store.site)),
        *inner,
        _over_bins(bins, namer, lambda at: _merged(histogram, private, at)),
    )


def _with_copy(histogram: _Histogram, private: Buffer, k: int) -> Sequence[Stmt]:
    """Return the innermost body with its update in copy ``k``; copy 0 is the histogram itself."""
    body, store = histogram.loops[-1].body, histogram.store
    if k == 0:
        return body
    at = ix.add(histogram.bin_number, (k - 1) * histogram.bins)
    value = Op(histogram.operator, (BufferRead(private, at, store.site), histogram.term), store.buffer.dtype)
    kept = [s for s in body if s is not store and not any(r.buffer == store.buffer for r in reads_in((s,)))]
    return (*kept, Store(private, at, value, store.site))


def _merged(histogram: _Histogram, private: Buffer, at: ix.Index) -> Store:
    store = histogram.store
    where = ix.add(histogram.first, at)
    value: Value = BufferRead(store.buffer, where, store.site)
    for k in range(private.count // histogram.bins):
        copy = BufferRead(private, ix.add(at, k * histogram.bins), store.site)
        value = Op(histogram.operator, (value, copy), private.dtype)
    return replace(store, index=where, value=value)


def _over_bins(count: int, namer: Namer, store_at: Callable[[ix.Index], Store]) -> For:
    """Return a loop over ``count`` elements."""
    name = namer("bin")
    return For(name, count, LoopRole.SERIAL, (store_at(ix.var(name, 0, count - 1)),))


def _histogram(loop: For) -> _Histogram | None:
    """Return the histogram that a loop computes; None if it computes something else, or if copies do not pay."""
    loops = [loop]
    while loops[-1].body and isinstance(last := loops[-1].body[-1], For):
        loops.append(last)
    if any(s.role is not LoopRole.SERIAL or s.upper_bounds or s.lower_bounds or s.ordered for s in loops):
        return None
    between = [s for outer in loops[:-1] for s in outer.body[:-1]]
    body = loops[-1].body
    stores = [s for s in body if isinstance(s, Store)]
    bindings = [s for s in (*between, *body) if isinstance(s, Let | LetIndex)]
    if len(stores) != 1 or len(bindings) + 1 < len(between) + len(body):
        return None
    store, inside = stores[0], {*(s.name for s in loops), *(s.name for s in bindings)}
    indices: dict[str, ix.Index] = {}
    for b in bindings:
        if isinstance(b, LetIndex):
            indices[b.name] = ix.substitute(b.index, indices)
    index: ix.Index = ix.substitute(store.index, indices)
    term = _term(store, bindings, index, indices)
    moving = [(t, c) for t, c in ix.terms_of(index) if names_in_indices([ix.Affine(((t, 1),), 0)]) & inside]
    if term is None or not any(isinstance(t, ix.Atom) for t, _ in moving):
        return None
    number: ix.Index = ix.weighted_sum(0, [(ix.Affine(((t, 1),), 0), c) for t, c in moving])
    low, high = ix.interval(number)
    first = ix.add(ix.sub(index, number), low)
    histogram = _Histogram(tuple(loops), store, term, first, ix.sub(number, low), high - low + 1)
    least, most = ix.interval(first)
    within = least >= 0 and most + histogram.bins <= store.buffer.count
    terms = prod(s.extent for s in loops)
    pays = cpu_policy.private_bins_pay(terms, loops[-1].extent, histogram.bins * store.buffer.dtype.bytes_)
    return histogram if within and pays else None


def _term(
    store: Store, bindings: Sequence[Let | LetIndex], index: ix.Index, indices: Mapping[str, ix.Index]
) -> Value | None:  # fmt: skip
    """Return the value that an update combines with the stored element; None if the store is no such update."""
    value, buffer = store.value, store.buffer
    if store.combine or buffer.in_registers or buffer.dtype.kind not in "iu":
        return None
    if not isinstance(value, Op) or value.name not in OPERATORS or value.dtype != buffer.dtype:
        return None
    names = {b.name: b.value for b in bindings if isinstance(b, Let)}
    reads = [r for s in (*bindings, store) for r in reads_in((s,)) if r.buffer.name == buffer.name]
    same = _same_names(bindings)
    if len(reads) != 1 or _key(ix.substitute(reads[0].index, indices), same) != _key(index, same):
        return None
    own = [names.get(a.name) if isinstance(a, VarRef) else a for a in value.args]
    if sum(v == reads[0] for v in own) != 1:
        return None
    term = value.args[1 - own.index(reads[0])]
    users = [s for s in (*bindings, store) if names_used((s,)) & {n for n, v in names.items() if v == reads[0]}]
    depends = any(isinstance(v, BufferRead) and v.buffer == buffer for v in walk_values(term))
    return None if depends or any(s is not store for s in users) else term


def _same_names(bindings: Sequence[Let | LetIndex]) -> dict[str, str]:
    """Return the first name of the value of each name: an index that is read and written has two names."""
    names: dict[Any, str] = {}
    return {b.name: names.setdefault(value_key(b.value), b.name) for b in bindings if isinstance(b, Let)}


def _key(index: ix.Index, same: Mapping[str, str]) -> str:
    """Return a text that is equal for equal indices, with the first name of each value."""

    def on_data(t: ix.Atom) -> object:
        v = t.payload
        name = same.get(v.name, v.name) if isinstance(v, VarRef) else repr(v)
        return (v, name) if t.kind == "select" else ix.data(v, *t.interval, text=name)

    return ix.key(ix.substitute(index, {}, on_data))
