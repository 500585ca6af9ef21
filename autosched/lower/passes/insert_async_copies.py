"""Replace loads whose values are only stored to shared memory by async copies.

    v = load a[i]; store asynchronously s[j] = v   ->   copy s[j] <- a[i]

A vector is copied at once if its elements are neighbours on both sides, and element by element otherwise. An
asynchronous store of a computed value stays a plain store, which is correct but completes earlier than required.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.analysis.indices import index as ix
from autosched.lower.ir import (
    AsyncCopy,
    BufferRead,
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
from autosched.lower.ir_visitor import map_parts
from autosched.lower.passes.number_accesses import number_accesses
from autosched.lower.verify import COPY_BYTES

_Bound = dict[str, Let | LetVector]


def insert_async_copies(kernel: KernelIR) -> KernelIR:
    """Return a kernel in which asynchronous stores of loaded values are copies."""
    if not any(isinstance(s, Store | StoreVector) and s.asynchronous for s in walk(kernel.body)):
        return kernel
    body, depths = number_accesses(_statements(kernel.body))
    return replace(kernel, body=body, site_depths=depths)


def _statements(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    bound: _Bound = {s.name: s for s in body if isinstance(s, Let | LetVector)}
    rewritten: list[Stmt] = []
    for s in body:
        if isinstance(s, Store | StoreVector) and s.asynchronous:
            rewritten += _copies(s, values_of(s), bound) or (s,)
        else:
            rewritten.append(map_parts(s, bodies=_statements))
    return _without_unused(rewritten) if any(isinstance(s, AsyncCopy) for s in rewritten) else tuple(rewritten)


def _copies(s: Store | StoreVector, values: Sequence[Value], bound: _Bound) -> list[AsyncCopy]:
    """Return the copies that replace a store: one of the vector or one per element; none if a value is no copy."""
    whole = _vector_copy(s, values, bound)
    if whole is not None:
        return [whole]
    copies = [_scalar_copy(s, k, _definition(v, bound), bound) for k, v in enumerate(values)]
    return [c for c in copies if c is not None] if None not in copies else []


def _vector_copy(s: Store | StoreVector, values: Sequence[Value], bound: _Bound) -> AsyncCopy | None:
    """Return the copy of an aligned part of a loaded vector that is stored in the same order."""
    n = len(values)
    elements = [_definition(v, bound) for v in values]
    parts = [(e.vector, e.number) for e in elements if isinstance(e, VectorElement)]
    loaded = bound.get(parts[0][0]) if parts else None
    if not isinstance(loaded, LetVector):
        return None
    first = parts[0][1]
    if first % n or parts != [(loaded.name, first + k) for k in range(n)]:
        return None
    return _if_aligned(AsyncCopy(s.buffer, s.index, loaded.buffer, ix.add(loaded.index, first), n, s.site, loaded.site))


def _scalar_copy(s: Store | StoreVector, number: int, value: Value, bound: _Bound) -> AsyncCopy | None:
    """Return the copy of one stored element."""
    at = ix.add(s.index, number)
    if isinstance(value, BufferRead):
        return _if_aligned(AsyncCopy(s.buffer, at, value.buffer, value.index, 1, s.site, value.site))
    loaded = bound.get(value.vector) if isinstance(value, VectorElement) else None
    if not isinstance(value, VectorElement) or not isinstance(loaded, LetVector):
        return None
    return _if_aligned(
        AsyncCopy(s.buffer, at, loaded.buffer, ix.add(loaded.index, value.number), 1, s.site, loaded.site)
    )


def _definition(v: Value, bound: _Bound) -> Value:
    """Return the value that a name is bound to."""
    binding = bound.get(v.name) if isinstance(v, VarRef) else None
    return binding.value if isinstance(binding, Let) else v


def _if_aligned(c: AsyncCopy) -> AsyncCopy | None:
    """Return a copy if the hardware supports it: global to shared memory, same type, a supported size."""
    has_size = c.length * c.buffer.dtype.bytes_ in COPY_BYTES
    is_to_shared = c.source.memory is Memory.GLOBAL and c.buffer.memory is Memory.SHARED
    return c if has_size and is_to_shared and c.source.dtype == c.buffer.dtype else None


def _without_unused(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Return statements without loads of unused values."""
    while True:
        used: set[str] = set()
        for s in walk(tuple(body)):
            for v in (part for value in values_of(s) for part in walk_values(value)):
                used |= {v.name} if isinstance(v, VarRef) else {v.vector} if isinstance(v, VectorElement) else set()
        live = [s for s in body if _loaded_name(s) is None or _loaded_name(s) in used]
        if len(live) == len(body):
            return tuple(body)
        body = live


def _loaded_name(s: Stmt) -> str | None:
    """Return the name that a statement binds to a loaded value; None if it loads none."""
    is_load = isinstance(s, LetVector) or (isinstance(s, Let) and isinstance(s.value, BufferRead | VectorElement))
    return s.name if is_load and isinstance(s, Let | LetVector) else None
