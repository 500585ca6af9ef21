"""Coalesce a thread's accesses to neighbouring elements into vector loads and stores of up to 16 bytes.

    v0 = load a[at]; v1 = load a[at + 1]   ->   a_x2 = load a[at .. at + 1]; v0 = a_x2[0]; v1 = a_x2[1]

The rewrite requires that ``at`` is a multiple of 2 in all threads. `autosched.schedule.kernel.vector_access` chooses
the accesses. Loops over a thread's points are unrolled where this exposes neighbouring accesses. The code of boundary
blocks does not change.

The pass is for CUDA only: C compilers form vectors across lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.lower.divisibility import known_divisor
from autosched.lower.ir import (
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
    Partitioning,
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
from autosched.lower.ir_queries import access_steps, kernel_names
from autosched.lower.ir_visitor import map_parts
from autosched.lower.passes.number_accesses import number_accesses
from autosched.lower.passes.unroll import StraightLineCode, unroll
from autosched.lower.verify import verify
from autosched.schedule.kernel.vector_access import MAX_VECTOR_BYTES, VectorGroup, alignment, group_accesses

AccessRun = tuple[str, str]
"""Accesses whose indices differ by constants: name of the buffer, key of the index without its constant."""


def coalesce_accesses(kernel: KernelIR) -> KernelIR:
    """Return a kernel whose neighbouring accesses are vector accesses; kernels without ``vectors`` do not change.

    Raises:
        CompileError: An internal error: the result violates an invariant of the IR.
    """
    if not kernel.vectors:
        return kernel
    body, depths = number_accesses(_Coalescer(Namer(kernel_names(kernel))).statements(kernel.body))
    coalesced = replace(kernel, body=body, site_depths=depths, vectors=False)
    verify(coalesced)
    return coalesced


def vector_bytes(body: tuple[Stmt, ...]) -> dict[str, int]:
    """Return the required alignment in bytes of each buffer with vector accesses, by name."""
    alignments: dict[str, int] = {}
    for s in walk(body):
        if isinstance(s, LetVector | StoreVector | AsyncCopy):
            size = s.buffer.dtype.bytes_ * (len(s.values) if isinstance(s, StoreVector) else s.length)
            for buffer in (s.buffer, s.source) if isinstance(s, AsyncCopy) else (s.buffer,):
                alignments[buffer.name] = max(alignments.get(buffer.name, 1), size)
    return alignments


@dataclass
class _Coalescer:
    """Rewrites one kernel; ``definitions`` has the indices bound so far, by name."""

    namer: Namer
    definitions: dict[str, ix.Index] = field(default_factory=dict)

    def statements(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """Return statements with coalesced accesses, in inner statements too."""
        rewritten: list[Stmt] = []
        for s in body:
            match s:
                case For(role=LoopRole.UNROLLED) | For(few_points=True):
                    rewritten += self._unrolled(s)
                case If(uniform=True):
                    rewritten.append(replace(s, then=self.statements(s.then), orelse=self._boundary(s.orelse)))
                case _:
                    self._define((s,))
                    rewritten.append(map_parts(s, bodies=self.statements))
        return self._coalesced(rewritten)

    def _boundary(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """Return boundary code with coalesced accesses in its interior steps alone."""
        rewritten: list[Stmt] = []
        for s in body:
            match s:
                case If(partition=Partitioning.STEPS):
                    rewritten.append(replace(s, then=self.statements(s.then)))
                case For(role=LoopRole.MAINLOOP) | If(uniform=True):
                    rewritten.append(map_parts(s, bodies=self._boundary))
                case _:
                    rewritten.append(s)
        return tuple(rewritten)

    def _define(self, body: Iterable[Stmt]) -> None:
        self.definitions.update((s.name, s.index) for s in body if isinstance(s, LetIndex))

    def _unrolled(self, loop: For) -> tuple[Stmt, ...]:
        """Return a loop unrolled if this exposes vector accesses, and the loop itself otherwise."""
        straight = unroll(loop, self.namer) if is_contiguous(loop) else None
        if straight is not None and has_vectors(body := self._nested(straight)):
            return body
        return (replace(loop, body=self.statements(loop.body)),)

    def _nested(self, straight: StraightLineCode) -> tuple[Stmt, ...]:
        """Return the points of an unrolled loop, those with stricter guards inside weaker guards."""
        body: tuple[Stmt, ...] = ()
        for stage in straight.stages:
            self._define(stage.statements)
        for stage in reversed(straight.stages):
            body = self._coalesced((*stage.statements, *body))
            if stage.guard is not None:
                body = (If(stage.guard, body),)
        return body

    def _coalesced(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """Coalesce the accesses of straight-line code."""
        if sum(isinstance(s, Let | Store) for s in body) < 2:
            return tuple(body)
        loaded, stored = _accessed_buffers(body)
        loads: dict[AccessRun, list[tuple[int, ix.Index, Buffer]]] = {}
        stores: dict[AccessRun, dict[int, list[int]]] = {}  # positions of the statements by offset
        for k, s in enumerate(body):
            match s:
                case Let(value=BufferRead(buffer=b, index=i)) if not b.in_registers and b.name not in stored:
                    loads.setdefault(_run(b, i), []).append((k, i, b))
                case Store(buffer=b, index=i, value=v, combine="") if not b.in_registers and b.name not in loaded:
                    if not any(isinstance(part, BufferRead) for part in walk_values(v)):
                        stores.setdefault(_run(b, i), {}).setdefault(_offset(i), []).append(k)
        rewritten: dict[int, list[Stmt]] = {}
        for run in loads.values():
            self._merge_loads(body, run, rewritten)
        for positions in stores.values():
            if all(len(at) == 1 for at in positions.values()):
                self._merge_stores(body, {offset: at[0] for offset, at in positions.items()}, rewritten)
        return tuple(t for k, s in enumerate(body) for t in rewritten.get(k, [s]))

    def _groups(self, b: Buffer, index: ix.Index, offsets: Iterable[int]) -> Iterator[VectorGroup]:
        linear = ix.sub(index, _offset(index))
        aligned = alignment([known_divisor(linear, self.definitions)], b.dtype.bytes_)
        return (g for g in group_accesses(frozenset(offsets), aligned) if g.length > 1)

    def _merge_loads(
        self, body: Sequence[Stmt], run: Sequence[tuple[int, ix.Index, Buffer]], rewritten: dict[int, list[Stmt]]
    ) -> None:
        _, index, buffer = run[0]
        for group in self._groups(buffer, index, (_offset(i) for _, i, _ in run)):
            numbers = ((k, _offset(i) - group.start) for k, i, _ in run)
            inside = [(k, number) for k, number in numbers if 0 <= number < group.length]
            name = self.namer(buffer.name, f"x{group.length}")
            for k, number in inside:
                s = body[k]
                assert isinstance(s, Let)
                rewritten[k] = [Let(s.name, VectorElement(name, number, buffer.dtype))]
            start = ix.add(ix.sub(index, _offset(index)), group.start)
            rewritten[inside[0][0]].insert(0, LetVector(name, buffer, start, group.length, 0))

    def _merge_stores(
        self, body: Sequence[Stmt], positions: Mapping[int, int], rewritten: dict[int, list[Stmt]]
    ) -> None:
        first = body[next(iter(positions.values()))]
        assert isinstance(first, Store)
        for group in self._groups(first.buffer, first.index, positions):
            at = [positions[group.start + k] for k in range(group.length)]
            values: list[Value] = []
            asynchronous = True
            for k in at:
                s = body[k]
                assert isinstance(s, Store)
                asynchronous &= s.asynchronous
                rewritten[k] = []
                if isinstance(s.value, VarRef | ConstValue):
                    values.append(s.value)
                else:
                    name = self.namer(first.buffer.name, "e")
                    rewritten[k].append(Let(name, s.value))
                    values.append(VarRef(name, s.value.dtype))
            start = ix.add(ix.sub(first.index, _offset(first.index)), group.start)
            rewritten[max(at)].append(StoreVector(first.buffer, start, tuple(values), 0, asynchronous))


def is_contiguous(loop: For) -> bool:
    """Whether an iteration moves some access in memory by at most a vector, so that unrolling may form vectors.

    `autosched.lower.passes.cpu.distribute_lane_loop.is_unit_stride` requires a small step of all accesses instead.
    """
    return any(
        0 < abs(step) * buffer.dtype.bytes_ <= MAX_VECTOR_BYTES
        for buffer, step in access_steps(loop)
        if not buffer.in_registers
    )


def has_vectors(body: tuple[Stmt, ...]) -> bool:
    """Whether statements contain a vector access."""
    return any(isinstance(s, LetVector | StoreVector) for s in walk(body))


def _run(buffer: Buffer, index: ix.Index) -> AccessRun:
    return buffer.name, ix.key(ix.sub(index, _offset(index)))


def _offset(index: ix.Index) -> int:
    return index.const if isinstance(index, ix.Affine) else index


def _accessed_buffers(body: Sequence[Stmt]) -> tuple[set[str], set[str]]:
    """Return the names of the buffers that are loaded, and of the buffers that are stored to."""
    loaded: set[str] = set()
    stored: set[str] = set()
    for s in walk(tuple(body)):
        loaded |= {v.buffer.name for value in values_of(s) for v in walk_values(value) if isinstance(v, BufferRead)}
        if isinstance(s, LetVector):
            loaded.add(s.buffer.name)
        elif isinstance(s, Store | StoreVector):
            stored.add(s.buffer.name)
    return loaded, stored
