"""Expand per-thread arrays that outlive a thread nest to one array per block, for the C backend.

Rewrite:
    private acc[4]; for t < 32: acc[i] = 0; for t < 32: use acc[i]
    ->  register acc[4 * 32]; for t < 32: acc[32 * i + t] = 0; for t < 32: use acc[32 * i + t]

Elements of neighbouring threads are contiguous, so that lanes form vectors. A shuffle reads the element of another
thread.
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
    KernelIR,
    LoopRole,
    Memory,
    ShuffleRead,
    Stmt,
    Store,
    walk,
)
from autosched.lower.ir_visitor import Node, map_parts


def expand_private_arrays(kernel: KernelIR) -> KernelIR:
    """Return a kernel without arrays in PRIVATE memory."""
    private = [s.buffer for s in walk(kernel.body) if isinstance(s, Alloc) and s.buffer.memory is Memory.PRIVATE]
    if not private:
        return kernel
    wide = {b.name: Buffer(b.name, b.dtype, b.count * kernel.threads, Memory.REGISTER) for b in private}
    return replace(kernel, body=_Expander(kernel, wide).statements(kernel.body, {}))


class _Expander:
    def __init__(self, kernel: KernelIR, wide: Mapping[str, Buffer]) -> None:
        self.kernel = kernel
        self.wide = wide

    def statements(self, body: Sequence[Stmt], axes: Mapping[int, For]) -> tuple[Stmt, ...]:
        """Return statements inside thread loops, which are given by axis."""
        return tuple(self._statement(s, axes) for s in body)

    def _statement(self, s: Stmt, axes: Mapping[int, For]) -> Stmt:
        if isinstance(s, Alloc) and s.buffer.name in self.wide:
            return Alloc(self.wide[s.buffer.name])
        inside = {**axes, s.axis: s} if isinstance(s, For) and s.role is LoopRole.THREAD else axes
        return self._expand(map_parts(s, bodies=lambda body: self.statements(body, inside)), axes)

    def _expand(self, node: Node, axes: Mapping[int, For]) -> Node:
        expanded = map_parts(node, values=lambda v: self._expand(v, axes))
        if isinstance(expanded, Store | BufferRead) and expanded.buffer.name in self.wide:
            wide = self.wide[expanded.buffer.name]
            return replace(expanded, buffer=wide, index=self._index(expanded.index, axes))
        if isinstance(expanded, ShuffleRead):
            index = ix.add(ix.scale(expanded.index, self.kernel.threads), expanded.lane)
            return BufferRead(self.wide[expanded.buffer.name], index, expanded.site)  # type: ignore[return-value]
        return expanded

    def _index(self, index: ix.Index, axes: Mapping[int, For]) -> ix.Index:
        if self.kernel.linear_threads:
            return self._linear_index(index, axes)
        expanded = index
        for axis in (2, 1, 0):
            expanded = ix.scale(expanded, self.kernel.block[axis])
            loop = axes.get(axis)
            if loop is not None and loop.extent > 1:
                expanded = ix.add(expanded, ix.var(loop.name, 0, loop.extent - 1))
        return expanded

    def _linear_index(self, index: ix.Index, axes: Mapping[int, For]) -> ix.Index:
        """Return the index of an element where the loops of a nest divide a linear index of the threads."""
        expanded: ix.Index = ix.scale(index, self.kernel.threads)
        stride = 1
        for _, loop in sorted(axes.items()):
            if loop.extent > 1:
                expanded = ix.add(expanded, ix.scale(ix.var(loop.name, 0, loop.extent - 1), stride))
            stride *= loop.extent
        return expanded
