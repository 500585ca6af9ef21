"""Loads whose values are only stored in shared memory, as copies that go past registers while the thread goes on.

    v = load a[i]; store asynchronously s[j] = v   ->   copy s[j] <- a[i]

Where elements that are loaded together are stored apart, or the other way round, each is copied by itself. What is no
copy, as a store of something computed, stays as it is: it arrives earlier than it must.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.analysis.indices import index as ix
from autosched.lower.ir import (
    AsyncCopy,
    BufferRead,
    For,
    If,
    KernelIR,
    Let,
    LetVector,
    Memory,
    Stmt,
    Store,
    StoreVector,
    Value,
    VarRef,
    VectorElement,
    values_of,
    walk,
    walk_values,
)
from autosched.lower.passes.number_accesses import number_accesses

COPY_BYTES = (4, 8, 16)
"""Bytes that one copy may have."""

_Bound = dict[str, Let | LetVector]


def insert_async_copies(kernel: KernelIR) -> KernelIR:
    """Return a kernel in which asynchronous stores of loaded values are copies."""
    stores = (s for s in walk(kernel.body) if isinstance(s, Store | StoreVector))
    if not any(s.asynchronous for s in stores):
        return kernel
    body, depths = number_accesses(_statements(kernel.body))
    return replace(kernel, body=body, site_depths=depths)


def _statements(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    bound: _Bound = {s.name: s for s in body if isinstance(s, Let | LetVector)}
    found: list[Stmt] = []
    for s in body:
        match s:
            case For():
                found.append(replace(s, body=_statements(s.body)))
            case If():
                found.append(replace(s, then=_statements(s.then), orelse=_statements(s.orelse)))
            case Store(asynchronous=True):
                found += _copies(s, (s.value,), bound) or (s,)
            case StoreVector(asynchronous=True):
                found += _copies(s, s.values, bound) or (s,)
            case _:
                found.append(s)
    return _without_unused(found) if any(isinstance(s, AsyncCopy) for s in found) else tuple(found)


def _copies(s: Store | StoreVector, values: Sequence[Value], bound: _Bound) -> list[AsyncCopy]:
    """Return the copies in place of a store: one of all neighbours or one of each; none if it stores other things."""
    together = _vector_copy(s, values, bound)
    if together is not None:
        return [together]
    each = [_scalar_copy(s, k, _value(v, bound), bound) for k, v in enumerate(values)]
    return [c for c in each if c is not None] if None not in each else []


def _vector_copy(s: Store | StoreVector, values: Sequence[Value], bound: _Bound) -> AsyncCopy | None:
    """Return the copy of neighbours that were loaded together and are stored in the same order."""
    n = len(values)
    elements = [_value(v, bound) for v in values]
    parts = [(e.vector, e.number) for e in elements if isinstance(e, VectorElement)]
    loaded = bound.get(parts[0][0]) if parts else None
    if not isinstance(loaded, LetVector):
        return None
    first = parts[0][1]
    if first % n or parts != [(loaded.name, first + k) for k in range(n)]:
        return None
    return _if_aligned(AsyncCopy(s.buffer, s.index, loaded.buffer, ix.add(loaded.index, first), n, s.site, loaded.site))


def _scalar_copy(s: Store | StoreVector, number: int, value: Value, bound: _Bound) -> AsyncCopy | None:
    """Return the copy of one of the elements that are stored."""
    at = ix.add(s.index, number)
    if isinstance(value, BufferRead):
        return _if_aligned(AsyncCopy(s.buffer, at, value.buffer, value.index, 1, s.site, value.site))
    loaded = bound.get(value.vector) if isinstance(value, VectorElement) else None
    if not isinstance(value, VectorElement) or not isinstance(loaded, LetVector):
        return None
    return _if_aligned(
        AsyncCopy(s.buffer, at, loaded.buffer, ix.add(loaded.index, value.number), 1, s.site, loaded.site)
    )


def _value(v: Value, bound: _Bound) -> Value:
    """Return what a name stands for."""
    known = bound.get(v.name) if isinstance(v, VarRef) else None
    return known.value if isinstance(known, Let) else v


def _if_aligned(c: AsyncCopy) -> AsyncCopy | None:
    """Return a copy if a device can do it: of unchanged elements from global memory to shared memory."""
    fits = c.length * c.buffer.dtype.bytes_ in COPY_BYTES
    alike = c.source.memory is Memory.GLOBAL and c.buffer.memory is Memory.SHARED and c.source.dtype == c.buffer.dtype
    return c if fits and alike else None


def _without_unused(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Return statements without the loads whose values are copied now."""
    while True:
        used: set[str] = set()
        for s in walk(tuple(body)):
            for v in (part for value in values_of(s) for part in walk_values(value)):
                used |= {v.name} if isinstance(v, VarRef) else {v.vector} if isinstance(v, VectorElement) else set()
        kept = [s for s in body if _loaded_name(s) is None or _loaded_name(s) in used]
        if len(kept) == len(body):
            return tuple(body)
        body = kept


def _loaded_name(s: Stmt) -> str | None:
    """Return what a statement calls the value that it loads, None if it loads none."""
    is_load = isinstance(s, LetVector) or (isinstance(s, Let) and isinstance(s.value, BufferRead | VectorElement))
    return s.name if is_load and isinstance(s, Let | LetVector) else None
