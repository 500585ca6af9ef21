"""Numbers of the accesses in a kernel."""

from __future__ import annotations

from dataclasses import replace

from autosched.lower.ir import (
    AsyncCopy,
    BufferRead,
    For,
    If,
    Let,
    LetVector,
    LoopRole,
    Op,
    Stmt,
    Store,
    StoreVector,
    Value,
    WarpReduce,
)


def number_accesses(body: tuple[Stmt, ...]) -> tuple[tuple[Stmt, ...], tuple[int, ...]]:
    """Number the access sites from 0 in the order of the text; return the serial loops around each, too."""
    depths: list[int] = []

    def site(depth: int) -> int:
        depths.append(depth)
        return len(depths) - 1

    def value(v: Value, depth: int) -> Value:
        if isinstance(v, BufferRead):
            return BufferRead(v.buffer, v.index, site(depth))
        return Op(v.name, tuple([value(a, depth) for a in v.args]), v.dtype) if isinstance(v, Op) else v

    def statements(body: tuple[Stmt, ...], depth: int) -> tuple[Stmt, ...]:
        return tuple(statement(s, depth) for s in body)

    def statement(s: Stmt, depth: int) -> Stmt:
        match s:
            case For():
                return replace(s, body=statements(s.body, depth + (s.role is not LoopRole.THREAD)))
            case If():
                condition = value(s.condition, depth)
                then = statements(s.then, depth)
                return replace(s, condition=condition, then=then, orelse=statements(s.orelse, depth))
            case Let():
                return Let(s.name, value(s.value, depth))
            case LetVector():
                return replace(s, site=site(depth))
            case Store():
                stored = value(s.value, depth)
                return replace(s, value=stored, site=site(depth))
            case StoreVector():
                values = tuple(value(v, depth) for v in s.values)
                return replace(s, values=values, site=site(depth))
            case AsyncCopy():
                loaded = site(depth)
                return replace(s, source_site=loaded, site=site(depth))
            case WarpReduce():
                loaded = site(depth)
                return replace(s, load_site=loaded, site=site(depth))
        return s

    numbered = statements(body, 0)
    return numbered, tuple(depths)
