"""Vector accesses as scalar values and stores, for passes without vector support, and back again.

    a_x2 = load 2 of a at i;  v = a_x2[1]   <->   a_x2 = load_vector(a[i], 2);  v = element(a_x2, 1)

Unrolling then detects equal vector loads like any other equal values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from autosched.lang.dtypes import int32
from autosched.lower.ir import (
    BufferRead,
    ConstValue,
    For,
    If,
    Let,
    LetVector,
    Op,
    Stmt,
    Store,
    StoreVector,
    Value,
    VarRef,
    VectorElement,
)

_LOAD, _ELEMENT, _STORE = "load_vector", "element", "store_vector"


def without_vectors(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Return statements with vectors replaced by special operations."""

    def statement(s: Stmt) -> Stmt:
        match s:
            case LetVector():
                length = ConstValue(s.length, int32)
                return Let(s.name, Op(_LOAD, (BufferRead(s.buffer, s.index, s.site), length), s.buffer.dtype))
            case StoreVector():
                values = tuple(_mapped(v, value) for v in s.values)
                return Store(s.buffer, s.index, Op(_STORE, values, s.buffer.dtype), s.site, s.asynchronous)
        return s

    def value(v: Value) -> Value:
        if isinstance(v, VectorElement):
            return Op(_ELEMENT, (VarRef(v.vector, v.dtype), ConstValue(v.number, int32)), v.dtype)
        return v

    return _rewritten(body, statement, value)


def with_vectors(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Return statements with the vectors that `without_vectors` replaced."""

    def statement(s: Stmt) -> Stmt:
        match s:
            case Let(value=Op(name=name, args=(BufferRead() as read, ConstValue(value=length)))) if name == _LOAD:
                return LetVector(s.name, read.buffer, read.index, int(length), read.site)
            case Store(value=Op(name=name, args=values)) if name == _STORE:
                return StoreVector(s.buffer, s.index, values, s.site, s.asynchronous)
        return s

    def value(v: Value) -> Value:
        match v:
            case Op(name=name, args=(VarRef(name=vector), ConstValue(value=number))) if name == _ELEMENT:
                return VectorElement(vector, int(number), v.dtype)
        return v

    return _rewritten(body, statement, value)


def _rewritten(
    body: Sequence[Stmt], statement: Callable[[Stmt], Stmt], value: Callable[[Value], Value]
) -> tuple[Stmt, ...]:
    """Return statements with mapped values, operands first, then mapped themselves."""

    def one(s: Stmt) -> Stmt:
        match s:
            case For():
                return replace(s, body=tuple(one(t) for t in s.body))
            case If():
                then, orelse = tuple(one(t) for t in s.then), tuple(one(t) for t in s.orelse)
                return replace(s, condition=_mapped(s.condition, value), then=then, orelse=orelse)
            case Let() | Store():
                return statement(replace(s, value=_mapped(s.value, value)))
        return statement(s)

    return tuple(one(s) for s in body)


def _mapped(v: Value, change: Callable[[Value], Value]) -> Value:
    if isinstance(v, Op):
        return change(Op(v.name, tuple(_mapped(a, change) for a in v.args), v.dtype))
    return change(v)
