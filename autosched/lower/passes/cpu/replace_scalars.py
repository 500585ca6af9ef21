"""Keep values carried from one iteration to the next in local arrays, for the C backend (scalar replacement).

    for k < n: f[k + 1] = f[k] + a[k + 1]
    ->  kept[1]; kept[0] = f[0]; for k < n: { next = kept[0] + a[k + 1]; kept[0] = next; f[k + 1] = next }

    for k < n: for lane < 32: f[lane, k + 1] = f[lane, k] + a[lane, k + 1]
    ->  kept[32]; for lane < 32: kept[lane] = f[lane, 0];
        for k < n: for lane < 32: { next = kept[lane] + a[lane, k + 1]; kept[lane] = next; f[lane, k + 1] = next }

Otherwise each value is stored to memory and loaded again some cycles later; lanes a row apart load one by one.
Compilers do this themselves only in loops without `Hint.CARRIES_DEPENDENCE`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.lower.ir import (
    Alloc,
    Buffer,
    BufferRead,
    Comment,
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
    values_of,
)
from autosched.lower.ir_queries import names_in_indices, reads_in
from autosched.lower.ir_visitor import map_parts, map_values
from autosched.lower.passes.cpu.distribute_lane_loop import is_gather, is_unit_stride

LEAST_ITERATIONS = 3
"""Iterations of the shortest loop that is rewritten."""
REGISTER_BYTES = 256
"""Bytes kept for contiguous lanes, at most: four vectors of AVX-512. More load as fast from the row itself."""
_LAZY = frozenset({"select", "and", "or"})
"""Operations that may evaluate only some of their operands."""


def keep_carried_values(loop: For, namer: Namer) -> tuple[tuple[Stmt, ...], For] | None:
    """Return the statements before a loop, and the loop with its carried values in an array of their own.

    None unless the body is straight-line code, possibly in one lane loop, that stores exactly what the next iteration
    loads.

    Args:
        loop: A serial loop.
        namer: Returns names that are new in the kernel.
    """
    if loop.role is not LoopRole.SERIAL or loop.extent < LEAST_ITERATIONS or loop.upper_bounds or loop.lower_bounds:
        return None
    lanes = _lane_loop(loop)
    body = loop.body if lanes is None else lanes.body
    if not all(isinstance(s, Let | LetIndex | Store | Comment) for s in body) or is_gather(loop):
        return None
    if lanes is not None and loop.name in names_in_indices([*lanes.upper_bounds, *lanes.lower_bounds]):
        return None
    for carried in _carried(loop, lanes, body):
        if lanes is None or not is_unit_stride(lanes) or carried.bytes_(lanes) <= REGISTER_BYTES:
            return _with_kept_values(loop, lanes, body, carried, namer)
    return None


@dataclass(frozen=True, slots=True)
class _Carried:
    """A store whose value the next iteration loads.

    Attributes:
        store: The store.
        reads: The loads; they precede the store.
        first: Index of the element loaded in the first iteration.
    """

    store: Store
    reads: tuple[BufferRead, ...]
    first: ix.Index

    def bytes_(self, lanes: For) -> int:
        """Return the bytes kept for all lanes."""
        return lanes.extent * self.store.buffer.dtype.bytes_


def _lane_loop(loop: For) -> For | None:
    only = loop.body[0] if len(loop.body) == 1 else None
    return only if isinstance(only, For) and only.role is LoopRole.THREAD and only.axis == 0 else None


def _carried(loop: For, lanes: For | None, body: Sequence[Stmt]) -> Iterator[_Carried]:
    """Yield the stores of a loop whose value the next iteration loads."""
    following = {loop.name: ix.add(ix.var(loop.name, 0, loop.extent - 1), 1)}
    beginning: dict[str, ix.Index] = {loop.name: 0}
    bound: dict[str, ix.Index] = {}
    loads: list[tuple[BufferRead, ix.Index]] = []
    stored = [s.buffer.name for s in body if isinstance(s, Store)]
    for s in body:
        if isinstance(s, LetIndex):
            bound[s.name] = ix.substitute(s.index, bound)
        loads += [(r, ix.substitute(r.index, bound)) for r in reads_in((s,))]
        if not isinstance(s, Store) or s.combine or s.buffer.in_registers or stored.count(s.buffer.name) > 1:
            continue
        index = ix.substitute(s.index, bound)
        carried = [
            (r, e) for r, e in loads
            if r.buffer.name == s.buffer.name and _is_affine(e) and ix.sub(ix.substitute(e, following), index) == 0
        ]  # fmt: skip
        reads = tuple(r for r, _ in carried)
        if carried and _is_affine(index) and _is_private(index, loop, lanes) and _are_eager(reads, body):
            yield _Carried(s, reads, ix.substitute(carried[0][1], beginning))


def _is_affine(e: ix.Index) -> bool:
    return all(isinstance(t, ix.LoopVar) for t, _ in ix.terms_of(e))


def _is_private(index: ix.Index, loop: For, lanes: For | None) -> bool:
    """Whether all lanes of an iteration and the next one access different elements."""
    scales = {t.name: c for t, c in ix.terms_of(index) if isinstance(t, ix.LoopVar)}
    step = scales.get(loop.name, 0)
    if lanes is None or lanes.extent == 1:
        return step != 0
    lane_step = scales.get(lanes.name, 0)
    return step != 0 and lane_step != 0 and (step % lane_step != 0 or abs(step // lane_step) >= lanes.extent)


def _are_eager(reads: Sequence[BufferRead], body: Sequence[Stmt]) -> bool:
    """Whether loads are executed in every iteration: none is in a lazily evaluated operand."""
    eager = [r for s in body for v in values_of(s) for r in _eager_reads(v)]
    return sum(r in reads for r in eager) == sum(r in reads for r in reads_in(body))


def _eager_reads(v: Value) -> Iterator[BufferRead]:
    if isinstance(v, BufferRead):
        yield v
    elif isinstance(v, Op):
        for a in v.args[:1] if v.name in _LAZY else v.args:
            yield from _eager_reads(a)


def _with_kept_values(
    loop: For, lanes: For | None, body: Sequence[Stmt], carried: _Carried, namer: Namer
) -> tuple[tuple[Stmt, ...], For]:
    store = carried.store
    name, count = namer(f"{store.buffer.name}_kept"), lanes.extent if lanes else 1
    kept = Buffer(name, store.buffer.dtype, count, Memory.REGISTER)
    at: ix.Index = ix.var(lanes.name, 0, lanes.extent - 1) if lanes and lanes.extent > 1 else 0
    first = Store(kept, at, BufferRead(store.buffer, carried.first, carried.reads[0].site), store.site)

    def from_kept(v: Value) -> Value:
        return BufferRead(kept, at, v.site) if isinstance(v, BufferRead) and v in carried.reads else v

    rewritten: list[Stmt] = []
    for s in body:
        replaced = map_parts(s, values=lambda v: map_values(v, from_kept))
        if s is store and isinstance(replaced, Store):
            following = VarRef(namer(f"{store.buffer.name}_next"), replaced.value.dtype)
            rewritten += [Let(following.name, replaced.value), Store(kept, at, following, s.site)]
            replaced = replace(replaced, value=following)
        rewritten.append(replaced)
    if lanes is None:
        return (Alloc(kept), first), replace(loop, body=tuple(rewritten))
    return (
        (Alloc(kept), replace(lanes, body=(first,))),
        replace(loop, body=(replace(lanes, body=tuple(rewritten)),)),
    )
