"""Put the lane loop (threadIdx.x) innermost for the C backend.

A thread's body becomes, for all lanes of a row at once: serial loops outside, and one vectorisable lane loop around
each straight-line piece. Per-thread register arrays get a lane dimension. Lanes are independent between barriers, so
the order does not matter; values bound further out are computed again in each piece that uses them.

Why not leave the lane loop outermost: gcc 12 with ``omp simd`` miscompiles such outer loops when they hold inner
loops with conditions (seen with AVX-512), and rarely vectorises them otherwise.

Rewrite:
    for lane: { acc; for s: { let a; store acc[s] } }
    ->  acc[][lanes]; for s: { for lane: { let a; store acc[s][lane] } }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.analysis import index as ix
from autosched.lower.ir import (
    Alloc,
    Buffer,
    CompareIndex,
    For,
    If,
    IndexValue,
    Let,
    LetIndex,
    LoopRole,
    Memory,
    Op,
    Read,
    Ref,
    Stmt,
    Store,
    Value,
    values_of,
    walk,
)

Binding = Let | LetIndex


def lanes_innermost(loop: For) -> tuple[Stmt, ...]:
    """Return the statements that replace a lane loop (a thread loop of axis 0)."""
    if not any(isinstance(s, For) for s in walk(loop.body)):
        return (loop,)
    return _Distributor(loop).run()


class _Distributor:
    def __init__(self, lane: For) -> None:
        self.lane = lane
        self.allocs: list[Stmt] = []
        self.widened: dict[str, Buffer] = {}

    def run(self) -> tuple[Stmt, ...]:
        body = self._distribute(self.lane.body, [], [])
        return (*self.allocs, *body)

    def _distribute(self, body: Sequence[Stmt], visible: list[Binding], guards: list[Value]) -> tuple[Stmt, ...]:
        """Split a body at its loops; ``visible`` are the bindings made so far, ``guards`` the conditions around it."""
        out: list[Stmt] = []
        piece: list[Stmt] = []
        visible = list(visible)

        def flush() -> None:
            if any(isinstance(s, Store | If) for s in piece):
                out.append(self._lane_loop(piece, visible, guards))
            visible.extend(s for s in piece if isinstance(s, Binding))
            piece.clear()

        for s in body:
            match s:
                case Alloc():
                    wide = Buffer(s.buffer.name, s.buffer.dtype, s.buffer.count * self.lane.extent, Memory.REGISTER)
                    self.widened[s.buffer.name] = wide
                    self.allocs.append(Alloc(wide))
                case For():
                    flush()
                    out.append(replace(s, body=self._distribute(s.body, visible, guards), role=LoopRole.SERIAL))
                case If() if any(isinstance(t, For | Alloc) for t in walk((*s.then, *s.orelse))):
                    flush()
                    assert not s.orelse, "a guard has one branch"
                    out += self._distribute(s.then, visible, [*guards, s.condition])
                case _:
                    piece.append(s)
        flush()
        return tuple(out)

    def _lane_loop(self, piece: Sequence[Stmt], visible: Sequence[Binding], guards: Sequence[Value]) -> Stmt:
        inner: tuple[Stmt, ...] = tuple(piece)
        for g in reversed(guards):
            inner = (If(g, inner),)
        needed = _used(inner)
        bindings: list[Stmt] = []
        for b in reversed(visible):  # latest first, so that what a binding uses is found further on
            if b.name in needed:
                bindings.insert(0, b)
                needed |= _used((b,))
        return replace(self.lane, body=tuple(self._widen(s) for s in (*bindings, *inner)))

    def _widen(self, s: Stmt) -> Stmt:
        match s:
            case Let():
                return Let(s.name, self._widen_value(s.value))
            case Store():
                value = self._widen_value(s.value)
                if s.buffer.name in self.widened and s.buffer.memory is Memory.REGISTER:
                    return Store(self.widened[s.buffer.name], self._lane_index(s.index), value, s.site)
                return replace(s, value=value)
            case If():
                then, orelse = (tuple(self._widen(t) for t in b) for b in (s.then, s.orelse))
                return replace(s, condition=self._widen_value(s.condition), then=then, orelse=orelse)
        return s

    def _widen_value(self, v: Value) -> Value:
        match v:
            case Read() if v.buffer.name in self.widened and v.buffer.memory is Memory.REGISTER:
                return Read(self.widened[v.buffer.name], self._lane_index(v.index), v.site)
            case Op():
                return replace(v, args=tuple(self._widen_value(a) for a in v.args))
        return v

    def _lane_index(self, i: ix.Index) -> ix.Index:
        found: ix.Index = ix.add(ix.scale(i, self.lane.extent), ix.var(self.lane.name, 0, self.lane.extent - 1))
        return found


def _used(statements: Sequence[Stmt]) -> set[str]:
    """Return the names that statements read."""
    names: set[str] = set()
    for s in walk(tuple(statements)):
        for v in values_of(s):
            _collect(v, names)
        if isinstance(s, Store | LetIndex):
            _collect_index(s.index, names)
    return names


def _collect(v: Value, names: set[str]) -> None:
    match v:
        case Ref():
            names.add(v.name)
        case IndexValue() | Read():
            _collect_index(v.index, names)
        case CompareIndex():
            _collect_index(v.a, names)
            _collect_index(v.b, names)
        case Op():
            for a in v.args:
                _collect(a, names)


def _collect_index(i: ix.Index, names: set[str]) -> None:
    for t in ix.atoms(i):
        if isinstance(t, ix.LoopVar):
            names.add(t.name)
        elif t.kind in ("data", "select") and t.payload is not None:
            _collect(t.payload, names)
