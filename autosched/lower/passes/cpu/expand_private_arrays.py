"""Arrays that every thread has for itself over several thread nests, as one array of the block, for the C backend.

Rewrite:
    private acc[4]; for t < 32: acc[i] = 0; for t < 32: use acc[i]
    ->  register acc[4 * 32]; for t < 32: acc[32 * i + t] = 0; for t < 32: use acc[32 * i + t]

Neighbouring threads' elements lie beside each other, so that lanes form vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autosched.analysis.indices import index as ix
from autosched.lower.ir import (
    Alloc,
    Buffer,
    BufferRead,
    For,
    If,
    KernelIR,
    Let,
    LoopRole,
    Memory,
    Op,
    Stmt,
    Store,
    Value,
    walk,
)


def expand_private_arrays(kernel: KernelIR) -> KernelIR:
    """Return a kernel without arrays in PRIVATE memory."""
    private = [s.buffer for s in walk(kernel.body) if isinstance(s, Alloc) and s.buffer.memory is Memory.PRIVATE]
    if not private:
        return kernel
    wide = {b.name: Buffer(b.name, b.dtype, b.count * kernel.threads, Memory.REGISTER) for b in private}
    return replace(kernel, body=_Spreader(kernel, wide).statements(kernel.body, {}))


class _Spreader:
    def __init__(self, kernel: KernelIR, wide: Mapping[str, Buffer]) -> None:
        self.kernel = kernel
        self.wide = wide

    def statements(self, body: Sequence[Stmt], axes: Mapping[int, For]) -> tuple[Stmt, ...]:
        """Return statements inside the thread loops given by axis."""
        return tuple(self._statement(s, axes) for s in body)

    def _statement(self, s: Stmt, axes: Mapping[int, For]) -> Stmt:
        match s:
            case Alloc() if s.buffer.name in self.wide:
                return Alloc(self.wide[s.buffer.name])
            case For():
                inside = {**axes, s.axis: s} if s.role is LoopRole.THREAD else axes
                return replace(s, body=self.statements(s.body, inside))
            case If():
                then, orelse = (self.statements(b, axes) for b in (s.then, s.orelse))
                return replace(s, condition=self._value(s.condition, axes), then=then, orelse=orelse)
            case Let():
                return Let(s.name, self._value(s.value, axes))
            case Store():
                value = self._value(s.value, axes)
                if s.buffer.name in self.wide:
                    return Store(self.wide[s.buffer.name], self._index(s.index, axes), value, s.site)
                return replace(s, value=value)
        return s

    def _value(self, v: Value, axes: Mapping[int, For]) -> Value:
        match v:
            case BufferRead() if v.buffer.name in self.wide:
                return BufferRead(self.wide[v.buffer.name], self._index(v.index, axes), v.site)
            case Op():
                return replace(v, args=tuple(self._value(a, axes) for a in v.args))
        return v

    def _index(self, index: ix.Index, axes: Mapping[int, For]) -> ix.Index:
        found = index
        for axis in (2, 1, 0):
            found = ix.scale(found, self.kernel.block[axis])
            loop = axes.get(axis)
            if loop is not None and loop.extent > 1:
                found = ix.add(found, ix.var(loop.name, 0, loop.extent - 1))
        return found
