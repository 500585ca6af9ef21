"""Store-to-load forwarding and common subexpressions for register arrays in straight-line code.

    store r[0] = f(v);  w = load r[0];  store a[i] = g(w);  store r[1] = f(v);  ...
    ->  v1 = f(v);  store r[0] = v1;  store a[i] = g(v1);  store r[1] = v1;  ...

A common point of several unrolled iterations is then evaluated once, as by compilers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autosched.analysis.identifiers import Namer
from autosched.lower.ir import BufferRead, ConstValue, Let, Op, Stmt, Store, Value, VarRef, WarpReduce, walk_values
from autosched.lower.ir_queries import value_key


def with_values_for_registers(body: Sequence[Stmt], namer: Namer) -> list[Stmt]:
    """Return straight-line code with values in place of reads from register arrays.

    Args:
        body: Statements without loops, branches and vectors.
        namer: Generator of names that are new in the kernel.
    """
    run = _Run(namer, frozenset(s.buffer.name for s in body if isinstance(s, Store | WarpReduce)))
    for s in body:
        run.add(s)
    return run.written


@dataclass
class _Run:
    namer: Namer
    stored: frozenset[str]
    written: list[Stmt] = field(default_factory=list)
    registers: dict[tuple[str, int], Value] = field(default_factory=dict)
    names: dict[str, Value] = field(default_factory=dict)
    cache: dict[Any, VarRef] = field(default_factory=dict)

    def add(self, s: Stmt) -> None:
        match s:
            case Let():
                self.names[s.name] = self._bound(s.name, self._value(s.value))
            case Store() if s.buffer.in_registers:
                value = self._value(s.value)
                if isinstance(s.index, int):
                    if isinstance(value, Op):
                        value = self._bound(self.namer(s.buffer.name), value)
                    self.registers[s.buffer.name, s.index] = value
                else:
                    self._forget(s.buffer.name)
                self.written.append(replace(s, value=value))
            case Store():
                self.written.append(replace(s, value=self._value(s.value)))
            case WarpReduce():
                self._forget(s.buffer.name)
                self.written.append(s)
            case _:
                self.written.append(s)

    def _bound(self, name: str, value: Value) -> Value:
        """Return the name of a value, which is bound to a new name at first."""
        if isinstance(value, VarRef | ConstValue):
            return value
        key = value_key(value)
        changes = any(isinstance(v, BufferRead) and v.buffer.name in self.stored for v in walk_values(value))
        if changes or key not in self.cache:
            self.cache[key] = VarRef(name, value.dtype)
            self.written.append(Let(name, value))
        return self.cache[key]

    def _forget(self, array: str) -> None:
        for key in [k for k in self.registers if k[0] == array]:
            del self.registers[key]

    def _value(self, v: Value) -> Value:
        match v:
            case VarRef():
                return self.names.get(v.name, v)
            case BufferRead() if v.buffer.in_registers and isinstance(v.index, int):
                return self.registers.get((v.buffer.name, v.index), v)
            case Op():
                return Op(v.name, tuple(self._value(a) for a in v.args), v.dtype)
        return v
