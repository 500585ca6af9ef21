"""Runs kernel IR one statement after another with uninterpreted functions: values are hashes of how they arose.

Two bodies that leave the same memory compute the same, whatever their operations mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosched.analysis.indices import index as ix
from autosched.lower.ir import (
    Alloc,
    BufferRead,
    CompareIndex,
    ConstValue,
    For,
    If,
    IndexValue,
    Let,
    LetIndex,
    LocalScope,
    Op,
    Stmt,
    Store,
    Value,
    VarRef,
)

_COMPARE = {
    "lt": int.__lt__, "le": int.__le__, "gt": int.__gt__, "ge": int.__ge__, "eq": int.__eq__, "ne": int.__ne__,
}  # fmt: skip


class Machine:
    """Memory and names of one block.

    Args:
        block: Values of the block loops.
    """

    def __init__(self, block: dict[str, int]) -> None:
        self.memory: dict[tuple[str, int], int] = {}
        self.registers: set[str] = set()
        self.indices: dict[str, int] = dict(block)
        self.values: dict[str, int] = {}

    def run(self, body: Sequence[Stmt]) -> None:
        """Execute statements."""
        for s in body:
            match s:
                case For():
                    start = max([0, *(self.index(first) for first in s.lower_bounds)])
                    end = min([s.extent, *(self.index(limit) for limit in s.upper_bounds)])
                    for k in range(start, end):
                        self.indices[s.name] = k
                        self.run(s.body)
                case LocalScope():
                    self.run(s.body)
                case If():
                    self.run(s.then if self.holds(s.condition) else s.orelse)
                case Let():
                    self.values[s.name] = self.value(s.value)
                case LetIndex():
                    self.indices[s.name] = self.index(s.index)
                case Store():
                    self.memory[s.buffer.name, self.index(s.index)] = self.value(s.value)
                case Alloc():
                    self.registers.add(s.buffer.name)
                    self.memory = {at: v for at, v in self.memory.items() if at[0] != s.buffer.name}

    def stored(self) -> dict[tuple[str, int], int]:
        """Return the stores to memory that outlives a thread."""
        return {at: v for at, v in self.memory.items() if at[0] not in self.registers}

    def value(self, v: Value) -> int:
        """Return the hash that stands for a value."""
        match v:
            case ConstValue() if v.dtype.kind == "b":
                return hash(bool(v.value))
            case ConstValue():
                return hash(("const", repr(v.value), v.dtype.name))
            case VarRef():
                return self.values.get(v.name, hash(v.name))
            case BufferRead():
                at = (v.buffer.name, self.index(v.index))
                if v.buffer.name in self.registers:
                    return self.memory[at]  # a register is written before it is read
                return self.memory.get(at, hash(at))
            case IndexValue():
                return hash((self.index(v.index), v.dtype.name))
            case CompareIndex():
                return hash(self.holds(v))
            case Op(name="and" | "or" | "not") if v.dtype.kind == "b":
                return hash(self.holds(v))
            case Op(name="select", args=(condition, yes, no)):
                return self.value(yes if self.holds(condition) else no)
            case Op():
                return hash((v.name, v.dtype.name, *(self.value(a) for a in v.args)))

    def holds(self, v: Value) -> bool:
        """Return whether a condition holds; data-dependent ones have a random but reproducible outcome."""
        match v:
            case CompareIndex():
                return bool(_COMPARE[v.op](self.index(v.a), self.index(v.b)))
            case ConstValue():
                return bool(v.value)
            case Op(name="and") if v.dtype.kind == "b":
                return all(self.holds(a) for a in v.args)
            case Op(name="or") if v.dtype.kind == "b":
                return any(self.holds(a) for a in v.args)
            case Op(name="not") if v.dtype.kind == "b":
                return not self.holds(v.args[0])
        return self.value(v) % 2 == 0

    def index(self, e: ix.Index) -> int:
        """Return an index; data give some number of their range."""

        def on_data(t: ix.Atom) -> Any:
            found = self.value(t.payload)
            if t.kind == "select":
                return found % 2 == 0, ""
            lo, hi = t.interval
            return lo + found % (hi - lo + 1)

        return int(ix.substitute(e, self.indices, on_data))
