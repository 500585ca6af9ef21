"""Split a lane loop with scatter stores in two, for processors without a scatter instruction.

A scalar store prevents the vectorisation of its whole loop. The first loop computes values and indices in vectors, the
second stores them lane by lane.

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
from autosched.lower.ir_queries import names_in_indices, names_used, reads_in
from autosched.lower.passes.cpu.distribute_lane_loop import Binding, is_unit_stride
from autosched.schedule import cpu_policy

LEAST_LANES = 8
"""Lanes of the smallest loop that is split."""


@dataclass(frozen=True)
class SplitScatter:
    """The two loops that replace a lane loop.

    Attributes:
        rows: Arrays with one element per lane, written by the first loop and read by the second.
        first: Computes operands of the second loop that no store of the loop changes.
        in_vectors: Whether the first loop is vectorised with ``omp simd``.
        second: Stores, and computes the remaining operands.
    """

    rows: tuple[Alloc, ...]
    first: For
    in_vectors: bool
    second: For


def split_scatter_loop(loop: For, namer: Namer) -> SplitScatter | None:
    """Return the two loops that replace a lane loop; None without scatter stores, or without operands to compute first.

    Loops with atomic operations or more than straight-line code are not split. Lanes are independent, so elements that
    a lane reads from an array written by the loop are its own; they are read in the second loop.

    Args:
        loop: A thread loop of axis 0.
        namer: Returns names that are new in the kernel.
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
    needed = with_operands(needed, early, kept)
    kept = {name: value for name, value in kept.items() if name in needed}
    if not kept:
        return None
    lane = ix.var(loop.name, 0, loop.extent - 1)
    once = _by_value(kept)
    rows = {v: Buffer(namer(n, "row"), v.dtype, loop.extent, Memory.REGISTER) for v, n in once.items()}
    before = with_operands(set(once.values()), early)
    put = tuple(Store(rows[v], lane, VarRef(n, v.dtype), 0) for v, n in once.items())
    first = replace(loop, body=(*(b for b in early if b.name in before), *put))

    def lane_by_lane(s: Stmt) -> Stmt:
        return Let(s.name, BufferRead(rows[kept[s.name]], lane, 0)) if isinstance(s, Let) and s.name in kept else s

    second = tuple(lane_by_lane(s) for s in body if isinstance(s, Store) or s.name in late | needed)
    loaded_bytes = [r.buffer.dtype.bytes_ for r in reads_in(first.body)]
    in_vectors = is_unit_stride(first) or all(b >= cpu_policy.SCATTERED_BYTES for b in loaded_bytes)
    return SplitScatter(tuple(map(Alloc, rows.values())), first, in_vectors, replace(loop, body=(*allocs, *second)))


def _forwarded(body: Sequence[Binding | Store]) -> list[Binding | Store]:
    """Return statements in which loads of a register array use the value that was stored before."""
    forwarded: list[Binding | Store] = []
    stored: dict[str, list[tuple[ix.Index, Value]]] = {}
    for s in body:
        if isinstance(s, Let) and isinstance(s.value, BufferRead):
            same = [v for i, v in stored.get(s.value.buffer.name, ()) if i == s.value.index]
            forwarded.append(Let(s.name, same[0]) if same else s)
            continue
        forwarded.append(s)
        if isinstance(s, Store) and s.buffer.in_registers:
            others = [
                (i, v) for i, v in stored.get(s.buffer.name, ()) if isinstance(ix.sub(i, s.index), int) and i != s.index
            ]
            has_no_load = not any(isinstance(v, BufferRead) for v in walk_values(s.value))
            latest = [(s.index, s.value)] if has_no_load and s.value.dtype == s.buffer.dtype else []
            stored[s.buffer.name] = [*latest, *others]
    return forwarded


def _dependents(bindings: Sequence[Binding], written: set[str]) -> tuple[set[str], set[str]]:
    """Return the names that depend on loaded data, and those that depend on arrays that are written."""
    loaded, late = set[str](), set[str]()
    for b in bindings:
        used, arrays = names_used([b]), {r.buffer.name for r in reads_in([b])}
        if arrays or used & loaded:
            loaded.add(b.name)
        if arrays & written or used & late:
            late.add(b.name)
    return loaded, late


def with_operands(names: set[str], bindings: Sequence[Binding], leaves: Container[str] = ()) -> set[str]:
    """Return names with all names that their bindings depend on; the search ends at ``leaves``."""
    closure = set(names)
    for b in reversed(bindings):
        if b.name in closure and b.name not in leaves:
            closure |= names_used([b])
    return closure


def _by_value(kept: dict[str, Value]) -> dict[Value, str]:
    """Return the first name of each value: an index that is read and written has two names."""
    names: dict[Value, str] = {}
    for name, value in kept.items():
        names.setdefault(value, name)
    return names


def _is_computed(v: Value) -> bool:
    return any(isinstance(part, Op) for part in walk_values(v))
