"""Lane loops that store where data say, in two for processors whose vectors cannot: first all else, in vectors.

A store that goes lane by lane keeps compilers from forming vectors of anything in its loop, of what says where to store
above all.

Rewrite:
    for lane: { let a = f(x[lane]); s[a] = s[a] + 1 }
    ->  row[lanes]; for lane: { let a = f(x[lane]); row[lane] = a };  for lane: { let a = row[lane]; s[a] = s[a] + 1 }
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.lower.ir import (
    Alloc,
    Buffer,
    BufferRead,
    For,
    Let,
    Memory,
    Op,
    Stmt,
    Store,
    Value,
    VarRef,
    walk_values,
)
from autosched.lower.passes.cpu.distribute_lane_loop import (
    SCATTERED_BYTES,
    Binding,
    is_unit_stride,
    names_in_indices,
    names_used,
    reads_in,
)

LEAST_LANES = 8
"""Lanes of a loop that is worth it."""


@dataclass(frozen=True)
class SplitScatter:
    """A lane loop in two.

    Attributes:
        rows: Arrays with an element for each lane, between the two.
        first: What the second needs and no store of the loop changes.
        in_vectors: Whether compilers should be told to form vectors of it.
        second: The stores, and what they need besides, lane by lane.
    """

    rows: tuple[Alloc, ...]
    first: For
    in_vectors: bool
    second: For


def split_scatter_loop(loop: For, namer: Namer) -> SplitScatter | None:
    """Return a lane loop in two; None where it stores nowhere that data say, or there is nothing to work out before.

    Atomic operations and more than straight code stay as they are. Lanes do not meet, so what one of them reads of an
    array that the loop writes is its own; it is read where it is written.

    Args:
        loop: A thread loop of axis 0.
        namer: Gives names that are new in the kernel.
    """
    body = [s for s in loop.body if isinstance(s, Binding | Store)]
    allocs = [s for s in loop.body if isinstance(s, Alloc)]
    if loop.extent < LEAST_LANES or len(body) + len(allocs) < len(loop.body):
        return None
    body = _forwarded(body)
    stores = [s for s in body if isinstance(s, Store)]
    bindings = [s for s in body if isinstance(s, Binding)]
    loaded, late = _dependents(bindings, {s.buffer.name for s in stores})
    if any(s.combine for s in stores) or not names_in_indices([s.index for s in stores]) & loaded:
        return None
    early = [b for b in bindings if b.name not in late]
    needed = names_used([s for s in body if isinstance(s, Store) or s.name in late])
    kept = {b.name: b.value for b in early if isinstance(b, Let) and b.name in loaded and _is_computed(b.value)}
    needed = _with_what_they_need(needed, early, kept)
    kept = {name: value for name, value in kept.items() if name in needed}
    if not kept:
        return None
    lane = ix.var(loop.name, 0, loop.extent - 1)
    once = _by_value(kept)
    rows = {v: Buffer(namer(n, "row"), v.dtype, loop.extent, Memory.REGISTER) for v, n in once.items()}
    before = _with_what_they_need(set(once.values()), early)
    put = tuple(Store(rows[v], lane, VarRef(n, v.dtype), 0) for v, n in once.items())
    first = replace(loop, body=(*(b for b in early if b.name in before), *put))

    def lane_by_lane(s: Stmt) -> Stmt:
        return Let(s.name, BufferRead(rows[kept[s.name]], lane, 0)) if isinstance(s, Let) and s.name in kept else s

    second = tuple(lane_by_lane(s) for s in body if isinstance(s, Store) or s.name in late | needed)
    in_vectors = is_unit_stride(first) or all(r.buffer.dtype.bytes_ >= SCATTERED_BYTES for r in reads_in(first.body))
    return SplitScatter(tuple(map(Alloc, rows.values())), first, in_vectors, replace(loop, body=(*allocs, *second)))


def _forwarded(body: Sequence[Binding | Store]) -> list[Binding | Store]:
    """Return statements that take what a lane has just put into its registers from where it came."""
    found: list[Binding | Store] = []
    held: dict[str, list[tuple[ix.Index, Value]]] = {}
    for s in body:
        if isinstance(s, Let) and isinstance(s.value, BufferRead):
            same = [v for i, v in held.get(s.value.buffer.name, ()) if i == s.value.index]
            found.append(Let(s.name, same[0]) if same else s)
            continue
        found.append(s)
        if isinstance(s, Store) and s.buffer.in_registers:
            others = [
                (i, v) for i, v in held.get(s.buffer.name, ()) if isinstance(ix.sub(i, s.index), int) and i != s.index
            ]
            plain = not any(isinstance(v, BufferRead) for v in walk_values(s.value))
            own = [(s.index, s.value)] if plain and s.value.dtype == s.buffer.dtype else []
            held[s.buffer.name] = [*own, *others]
    return found


def _dependents(bindings: Sequence[Binding], written: set[str]) -> tuple[set[str], set[str]]:
    """Return the names that follow from anything loaded, and those that follow from arrays that are written."""
    loaded, late = set[str](), set[str]()
    for b in bindings:
        used, arrays = names_used([b]), {r.buffer.name for r in reads_in([b])}
        if arrays or used & loaded:
            loaded.add(b.name)
        if arrays & written or used & late:
            late.add(b.name)
    return loaded, late


def _with_what_they_need(names: set[str], bindings: Sequence[Binding], ends: Container[str] = ()) -> set[str]:
    """Return names with those that their bindings use, and so on; what ``ends`` has needs nothing."""
    found = set(names)
    for b in reversed(bindings):
        if b.name in found and b.name not in ends:
            found |= names_used([b])
    return found


def _by_value(kept: dict[str, Value]) -> dict[Value, str]:
    """Return the first name of each value: indices that are read and written have two."""
    found: dict[Value, str] = {}
    for name, value in kept.items():
        found.setdefault(value, name)
    return found


def _is_computed(v: Value) -> bool:
    return any(isinstance(part, Op) for part in walk_values(v))
