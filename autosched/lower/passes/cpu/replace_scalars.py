"""Values that an iteration of a loop leaves to the next are kept beside memory, for the C backend (scalar replacement).

    for k < n: f[k + 1] = f[k] + a[k + 1]
    ->  kept[1]; kept[0] = f[0]; for k < n: { next = kept[0] + a[k + 1]; kept[0] = next; f[k + 1] = next }

    for k < n: for lane < 32: f[lane, k + 1] = f[lane, k] + a[lane, k + 1]
    ->  kept[32]; for lane < 32: kept[lane] = f[lane, 0];
        for k < n: for lane < 32: { next = kept[lane] + a[lane, k + 1]; kept[lane] = next; f[lane, k + 1] = next }

What was stored last is loaded again some cycles later; where lanes lie a row apart, each of them on its own. Compilers
keep such values themselves only in loops whose dependences are left to them
(`autosched.lower.passes.cpu.loop_dependence`).
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
from autosched.lower.passes.cpu.distribute_lane_loop import is_gather, is_unit_stride, names_in_indices, reads_in

LEAST_ITERATIONS = 3
"""Of a loop that is worth it."""
REGISTER_BYTES = 256
"""Kept of lanes that lie along memory: four vectors of AVX-512. More are loaded from a row as fast as from an array."""
_LAZY = frozenset({"select", "and", "or"})


def keep_carried_values(loop: For, namer: Namer) -> tuple[tuple[Stmt, ...], For] | None:
    """Return what stands before a loop, and the loop with the last values in an array of their own.

    None where the loop is not straight code, maybe in one lane loop, that stores exactly what the next iteration loads.

    Args:
        loop: A serial loop.
        namer: Gives names that are new in the kernel.
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
            return _kept(loop, lanes, body, carried, namer)
    return None


@dataclass(frozen=True, slots=True)
class _Carried:
    """A store of what the next iteration loads.

    Attributes:
        store: The store.
        reads: The loads, which stand before it.
        first: The element that they load in the first iteration.
    """

    store: Store
    reads: tuple[BufferRead, ...]
    first: ix.Index

    def bytes_(self, lanes: For) -> int:
        """Return the size of what all lanes keep."""
        return lanes.extent * self.store.buffer.dtype.bytes_


def _lane_loop(loop: For) -> For | None:
    only = loop.body[0] if len(loop.body) == 1 else None
    return only if isinstance(only, For) and only.role is LoopRole.THREAD and only.axis == 0 else None


def _carried(loop: For, lanes: For | None, body: Sequence[Stmt]) -> Iterator[_Carried]:
    """Yield the stores of a loop that leave a value to the next iteration."""
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
        found = [
            (r, e) for r, e in loads
            if r.buffer.name == s.buffer.name and _is_affine(e) and ix.sub(ix.substitute(e, following), index) == 0
        ]  # fmt: skip
        reads = tuple(r for r, _ in found)
        if found and _is_affine(index) and _is_alone(index, loop, lanes) and _are_eager(reads, body):
            yield _Carried(s, reads, ix.substitute(found[0][1], beginning))


def _is_affine(e: ix.Index) -> bool:
    return all(isinstance(t, ix.LoopVar) for t, _ in ix.terms_of(e))


def _is_alone(index: ix.Index, loop: For, lanes: For | None) -> bool:
    """Whether no other lane of an iteration or the next one, nor the lane itself in the next, has the same element."""
    scales = {t.name: c for t, c in ix.terms_of(index) if isinstance(t, ix.LoopVar)}
    step = scales.get(loop.name, 0)
    if lanes is None or lanes.extent == 1:
        return step != 0
    across = scales.get(lanes.name, 0)
    return step != 0 and across != 0 and (step % across != 0 or abs(step // across) >= lanes.extent)


def _are_eager(reads: Sequence[BufferRead], body: Sequence[Stmt]) -> bool:
    """Whether loads happen in every iteration: none is an arm of a choice."""
    eager = [r for s in body for v in values_of(s) for r in _eager_reads(v)]
    return sum(r in reads for r in eager) == sum(r in reads for r in reads_in(body))


def _eager_reads(v: Value) -> Iterator[BufferRead]:
    if isinstance(v, BufferRead):
        yield v
    elif isinstance(v, Op):
        for a in v.args[:1] if v.name in _LAZY else v.args:
            yield from _eager_reads(a)


def _kept(
    loop: For, lanes: For | None, body: Sequence[Stmt], carried: _Carried, namer: Namer
) -> tuple[tuple[Stmt, ...], For]:
    store = carried.store
    own = Buffer(namer(f"{store.buffer.name}_kept"), store.buffer.dtype, lanes.extent if lanes else 1, Memory.REGISTER)
    at: ix.Index = ix.var(lanes.name, 0, lanes.extent - 1) if lanes and lanes.extent > 1 else 0
    first = Store(own, at, BufferRead(store.buffer, carried.first, carried.reads[0].site), store.site)
    after: list[Stmt] = []
    for s in body:
        match s:
            case Let():
                after.append(Let(s.name, _from_kept(s.value, carried.reads, own, at)))
            case Store():
                value = _from_kept(s.value, carried.reads, own, at)
                if s is store:
                    following = VarRef(namer(f"{store.buffer.name}_next"), value.dtype)
                    after += [Let(following.name, value), Store(own, at, following, s.site)]
                    value = following
                after.append(replace(s, value=value))
            case _:
                after.append(s)
    if lanes is None:
        return (Alloc(own), first), replace(loop, body=tuple(after))
    return (
        (Alloc(own), replace(lanes, body=(first,))),
        replace(loop, body=(replace(lanes, body=tuple(after)),)),
    )


def _from_kept(v: Value, reads: Sequence[BufferRead], own: Buffer, at: ix.Index) -> Value:
    match v:
        case BufferRead() if v in reads:
            return BufferRead(own, at, v.site)
        case Op():
            return replace(v, args=tuple(_from_kept(a, reads, own, at) for a in v.args))
    return v
