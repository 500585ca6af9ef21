"""Join a thread's accesses to neighbouring elements: one load or store of up to 16 bytes in place of several.

    v0 = load a[at]; v1 = load a[at + 1]   ->   a_x2 = load a[at .. at + 1]; v0 = a_x2[0]; v1 = a_x2[1]

for ``at`` that is a multiple of 2 for all threads. Which accesses are joined says
`autosched.schedule.kernel.vector_access`. Loops over a thread's points are written out where that joins something, so
that the points stand beside each other. The code for blocks at the border stays as it is.

This is for processors with one address a lane; elsewhere compilers make vectors of lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autosched.analysis.identifiers import RESERVED, Namer
from autosched.analysis.indices import index as ix
from autosched.lower.divisibility import known_divisor
from autosched.lower.ir import (
    Alloc,
    AsyncCopy,
    Buffer,
    BufferRead,
    ConstValue,
    For,
    If,
    KernelIR,
    Let,
    LetIndex,
    LetVector,
    LoopRole,
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
from autosched.lower.passes.unroll import StraightLineCode, unroll
from autosched.lower.verify import verify
from autosched.schedule.kernel.vector_access import MAX_VECTOR_BYTES, VectorGroup, alignment, group_accesses

Run = tuple[str, str]
"""Accesses whose indices differ by constants: name of the buffer, linear part of the index."""


def coalesce_accesses(kernel: KernelIR) -> KernelIR:
    """Return a kernel that joins accesses to neighbouring elements.

    Raises:
        CompileError: An internal error: the result breaks a rule of the IR.
    """
    body, depths = number_accesses(_Vectoriser(Namer(names_in(kernel))).statements(kernel.body))
    found = replace(kernel, body=body, site_depths=depths, vectors=False)
    verify(found)
    return found


def vector_bytes(body: tuple[Stmt, ...]) -> dict[str, int]:
    """Return of each buffer that is accessed by vectors, by name, what its address must be a multiple of."""
    found: dict[str, int] = {}
    for s in walk(body):
        if isinstance(s, LetVector | StoreVector | AsyncCopy):
            size = s.buffer.dtype.bytes_ * (len(s.values) if isinstance(s, StoreVector) else s.length)
            for buffer in (s.buffer, s.source) if isinstance(s, AsyncCopy) else (s.buffer,):
                found[buffer.name] = max(found.get(buffer.name, 1), size)
    return found


@dataclass
class _Vectoriser:
    """Rewrites one kernel; ``definitions`` has the indices bound so far."""

    namer: Namer
    definitions: dict[str, ix.Index] = field(default_factory=dict)

    def statements(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """Return statements with their accesses joined, in inner statements too."""
        found: list[Stmt] = []
        for s in body:
            match s:
                case For(role=LoopRole.UNROLLED) | For(few_points=True):
                    found += self._unrolled(s)
                case For():
                    found.append(replace(s, body=self.statements(s.body)))
                case If():
                    orelse = s.orelse if s.uniform else self.statements(s.orelse)
                    found.append(replace(s, then=self.statements(s.then), orelse=orelse))
                case _:
                    self._define((s,))
                    found.append(s)
        return self._join(found)

    def _define(self, body: Iterable[Stmt]) -> None:
        self.definitions.update((s.name, s.index) for s in body if isinstance(s, LetIndex))

    def _unrolled(self, loop: For) -> tuple[Stmt, ...]:
        """Return what becomes of a loop that may be written out: it stays unless that joins something."""
        straight = unroll(loop, self.namer) if is_contiguous(loop) else None
        if straight is not None and has_vectors(found := self._nested(straight)):
            return found
        return (replace(loop, body=self.statements(loop.body)),)

    def _nested(self, straight: StraightLineCode) -> tuple[Stmt, ...]:
        """Return the points of a loop, those with stricter guards inside the others' guards."""
        found: tuple[Stmt, ...] = ()
        for stage in straight.stages:
            self._define(stage.statements)
        for stage in reversed(straight.stages):
            found = self._join((*stage.statements, *found))
            if stage.guard is not None:
                found = (If(stage.guard, found),)
        return found

    def _join(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """Join the accesses of one straight run of code."""
        if sum(isinstance(s, Let | Store) for s in body) < 2:
            return tuple(body)
        loaded, stored = _touched(body)
        loads: dict[Run, list[tuple[int, ix.Index, Buffer]]] = {}
        stores: dict[Run, dict[int, list[int]]] = {}
        for k, s in enumerate(body):
            match s:
                case Let(value=BufferRead(buffer=b, index=i)) if not b.in_registers and b.name not in stored:
                    loads.setdefault(_run(b, i), []).append((k, i, b))
                case Store(buffer=b, index=i, value=v, combine="") if not b.in_registers and b.name not in loaded:
                    if not any(isinstance(part, BufferRead) for part in walk_values(v)):
                        stores.setdefault(_run(b, i), {}).setdefault(_offset(i), []).append(k)
        rewritten: dict[int, list[Stmt]] = {}
        for members in loads.values():
            self._join_loads(body, members, rewritten)
        for places in stores.values():
            if all(len(at) == 1 for at in places.values()):
                self._join_stores(body, {offset: at[0] for offset, at in places.items()}, rewritten)
        return tuple(t for k, s in enumerate(body) for t in rewritten.get(k, [s]))

    def _groups(self, b: Buffer, index: ix.Index, offsets: Iterable[int]) -> Iterator[VectorGroup]:
        linear = ix.sub(index, _offset(index))
        aligned = alignment([known_divisor(linear, self.definitions)], b.dtype.bytes_)
        return (g for g in group_accesses(frozenset(offsets), aligned) if g.length > 1)

    def _join_loads(
        self, body: Sequence[Stmt], members: Sequence[tuple[int, ix.Index, Buffer]], rewritten: dict[int, list[Stmt]]
    ) -> None:
        _, index, buffer = members[0]
        for group in self._groups(buffer, index, (_offset(i) for _, i, _ in members)):
            numbers = ((k, _offset(i) - group.start) for k, i, _ in members)
            inside = [(k, number) for k, number in numbers if 0 <= number < group.length]
            name = self.namer(buffer.name, f"x{group.length}")
            for k, number in inside:
                s = body[k]
                assert isinstance(s, Let)
                rewritten[k] = [Let(s.name, VectorElement(name, number, buffer.dtype))]
            start = ix.add(ix.sub(index, _offset(index)), group.start)
            rewritten[inside[0][0]].insert(0, LetVector(name, buffer, start, group.length, 0))

    def _join_stores(self, body: Sequence[Stmt], places: Mapping[int, int], rewritten: dict[int, list[Stmt]]) -> None:
        first = body[next(iter(places.values()))]
        assert isinstance(first, Store)
        for group in self._groups(first.buffer, first.index, places):
            at = [places[group.start + k] for k in range(group.length)]
            values: list[Value] = []
            later = True
            for k in at:
                s = body[k]
                assert isinstance(s, Store)
                later &= s.asynchronous
                rewritten[k] = []
                if isinstance(s.value, VarRef | ConstValue):
                    values.append(s.value)
                else:
                    name = self.namer(first.buffer.name, "e")
                    rewritten[k].append(Let(name, s.value))
                    values.append(VarRef(name, s.value.dtype))
            start = ix.add(ix.sub(first.index, _offset(first.index)), group.start)
            rewritten[max(at)].append(StoreVector(first.buffer, start, tuple(values), 0, later))


def is_contiguous(loop: For) -> bool:
    """Whether a step of a loop moves some access by so little that both may lie in one vector."""
    steps: dict[str, int] = {loop.name: 1}

    def bytes_(buffer: Buffer, e: ix.Index) -> int:
        return abs(step(e)) * buffer.dtype.bytes_ if not buffer.in_registers else 0

    def step(e: ix.Index) -> int:
        return sum(c * steps.get(t.name, 0) for t, c in ix.terms_of(e) if isinstance(t, ix.LoopVar))

    for s in walk(loop.body):
        reads = [v for value in values_of(s) for v in walk_values(value) if isinstance(v, BufferRead)]
        if isinstance(s, LetIndex):
            steps[s.name] = step(s.index)
        moved = [bytes_(v.buffer, v.index) for v in reads]
        if isinstance(s, Store):
            moved.append(bytes_(s.buffer, s.index))
        if any(0 < m <= MAX_VECTOR_BYTES for m in moved):
            return True
    return False


def has_vectors(body: tuple[Stmt, ...]) -> bool:
    """Whether some access in the statements is joined."""
    return any(isinstance(s, LetVector | StoreVector) for s in walk(body))


def _run(buffer: Buffer, index: ix.Index) -> Run:
    return buffer.name, ix.key(ix.sub(index, _offset(index)))


def _offset(index: ix.Index) -> int:
    return index.const if isinstance(index, ix.Affine) else index


def _touched(body: Sequence[Stmt]) -> tuple[set[str], set[str]]:
    """Return the names of the buffers that statements load from, and store to."""
    loaded: set[str] = set()
    stored: set[str] = set()
    for s in walk(tuple(body)):
        loaded |= {v.buffer.name for value in values_of(s) for v in walk_values(value) if isinstance(v, BufferRead)}
        if isinstance(s, LetVector):
            loaded.add(s.buffer.name)
        elif isinstance(s, Store | StoreVector):
            stored.add(s.buffer.name)
    return loaded, stored


def names_in(kernel: KernelIR) -> set[str]:
    """Return every name that a kernel uses."""
    names = {*RESERVED, kernel.name, *(n for n, _ in kernel.grid_loops), *(s.name for s in kernel.scalars)}
    names |= {b.name for b in (*kernel.reads, *kernel.writes, *(slot.buffer for slot in kernel.shared))}
    for s in walk(kernel.body):
        if isinstance(s, For | Let | LetIndex):
            names.add(s.name)
        elif isinstance(s, Alloc):
            names.add(s.buffer.name)
    return names
