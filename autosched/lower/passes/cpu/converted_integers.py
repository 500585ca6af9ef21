"""Hide that an integer was converted from floating point where it is converted back: gcc 12 replaces both by trunc.

    f = (float)(int)x     ->   f = (float)((int)x | zero)     zero is opaque

With ``-fno-trapping-math``, gcc 12 turns the two conversions into ``trunc``, which gives -0 for -0.7 instead of 0, in
scalar code where it sees no other operation between them. A bitwise OR with an opaque zero is one, and vectorises.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import int32, int64
from autosched.lower.ir import BufferRead, ConstValue, IndexValue, LetIndex, Memory, Op, Stmt, Value, walk
from autosched.lower.ir_queries import values_in

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
        self._body = body

    def hidden(self, v: Value) -> Value:
        """Return a value with its own integers hidden, those of its operands excluded."""
        if isinstance(v, IndexValue):
            if not v.dtype.is_float or not self._converts or not self._has_data(v.index):
                return v
            lo, hi = ix.interval(v.index)
            exact = int32 if int32.min_value <= lo and hi <= int32.max_value else int64
            v = Op("cast", (IndexValue(v.index, exact),), v.dtype)
        if not (isinstance(v, Op) and v.name == "cast" and v.dtype.is_float and v.args[0].dtype in _WIDE):
            return v
        if not self._converts or not self._may_be_converted(v.args[0]):
            return v
        return Op("cast", (Op(CONVERTED, v.args, v.args[0].dtype),), v.dtype)

    @cached_property
    def _converts(self) -> bool:
        """Whether the kernel converts from floating point; found at the first integer that is converted back."""
        return any(_truncates(v) for s in walk(self._body) for v in values_in(s))

    @cached_property
    def _names(self) -> set[str]:
        """Names of indices that depend on data."""
        names: set[str] = set()
        for s in walk(self._body):
            if isinstance(s, LetIndex) and _depends_on_data(s.index, names):
                names.add(s.name)
        return names

    def _has_data(self, e: ix.Index) -> bool:
        return _depends_on_data(e, self._names)

    def _may_be_converted(self, v: Value) -> bool:
        match v:
            case BufferRead():
                return v.buffer.memory is not Memory.GLOBAL
            case IndexValue():
                return self._has_data(v.index)
        return not isinstance(v, ConstValue) and not (isinstance(v, Op) and v.name == CONVERTED)


def _depends_on_data(e: ix.Index, names: Collection[str]) -> bool:
    return any(t.name in names if isinstance(t, ix.LoopVar) else t.kind == "data" for t in ix.atoms(e))


def _truncates(v: Value) -> bool:
    return isinstance(v, Op) and v.name in ("cast", "fptosi") and v.dtype in _WIDE and v.args[0].dtype.is_float
