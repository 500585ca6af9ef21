"""Hide that an integer was converted from floating point where it is converted back: gcc 12 replaces both by trunc.

    f = (float)(int)x     ->   f = (float)((int)x | zero)     zero is opaque

With ``-fno-trapping-math``, gcc 12 turns the two conversions into ``trunc``, which gives -0 for -0.7 instead of 0, in
scalar code where it sees no other operation between them. A bitwise OR with an opaque zero is one, and vectorises.
"""

from __future__ import annotations

from collections.abc import Iterator

from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import int32, int64
from autosched.lower.ir import (
    BufferRead,
    ConstValue,
    IndexValue,
    LetIndex,
    Memory,
    Op,
    Stmt,
    Value,
    indices_of,
    values_of,
    walk,
)
from autosched.lower.ir_visitor import Node, map_parts

_WIDE = (int32, int64)
"""Types of integers that gcc replaces: unsigned numbers are not negative, narrow ones are converted once more."""
CONVERTED = "converted"
"""Name of the operation that hides the origin of an integer; it is printed as a macro."""


class ConvertedIntegers:
    """Hides the integers of one kernel that may be converted from floating point, where they are converted back.

    Args:
        body: The kernel's statements.
    """

    def __init__(self, body: tuple[Stmt, ...]) -> None:
        self._names: set[str] = set()
        """Names of indices that depend on data."""
        self._converts = False
        for s in walk(body):
            if isinstance(s, LetIndex) and self._depends_on_data(s.index):
                self._names.add(s.name)
            self._converts = self._converts or any(map(_truncates, _values_in(s)))

    def hidden(self, s: Node) -> Node:
        """Return a statement with hidden integers, inner statements excluded."""
        return map_parts(s, values=self._value) if self._converts else s

    def _value(self, v: Value) -> Value:
        if isinstance(v, IndexValue) and v.dtype.is_float and self._depends_on_data(v.index):
            lo, hi = ix.interval(v.index)
            exact = int32 if int32.min_value <= lo and hi <= int32.max_value else int64
            v = Op("cast", (IndexValue(v.index, exact),), v.dtype)
        v = map_parts(v, values=self._value)
        if isinstance(v, Op) and v.name == "cast" and v.dtype.is_float and self._may_be_converted(v.args[0]):
            return Op("cast", (Op(CONVERTED, v.args, v.args[0].dtype),), v.dtype)
        return v

    def _may_be_converted(self, v: Value) -> bool:
        match v:
            case BufferRead():
                return v.dtype in _WIDE and v.buffer.memory is not Memory.GLOBAL
            case IndexValue():
                return v.dtype in _WIDE and self._depends_on_data(v.index)
            case ConstValue() | Op(name="converted"):
                return False
        return v.dtype in _WIDE

    def _depends_on_data(self, e: ix.Index) -> bool:
        return any(t.name in self._names if isinstance(t, ix.LoopVar) else t.kind == "data" for t in ix.atoms(e))


def _truncates(v: Value) -> bool:
    return isinstance(v, Op) and v.name == "cast" and v.dtype in _WIDE and v.args[0].dtype.is_float


def _values_in(s: Stmt) -> Iterator[Value]:
    """Yield the values of a statement, those in indices included and those of inner statements excluded."""
    stack = [*values_of(s), *_payloads(s)]
    while stack:
        v = stack.pop()
        yield v
        stack += [*values_of(v), *_payloads(v)]


def _payloads(node: Stmt | Value) -> Iterator[Value]:
    for e in indices_of(node):
        yield from (t.payload for t in ix.postorder(e) if t.kind == "data" and t.payload is not None)
