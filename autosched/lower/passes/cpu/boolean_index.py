"""Hide the range of indices that a C compiler can prove to be 0 or 1: gcc 12 miscompiles gathers at them.

    for lane < 16: { b = mask[lane] != 0; out[lane] = table[(int)b] }

gcc 12 drops the conversion and uses the condition, whose type is one bit wide, as the offset of a gather. This happens
with and without AVX-512 and ``omp simd``, also for conditions found by range analysis, as in ``min(n, 1)``. A bitwise
OR with an opaque zero hides the range, and the loop is still vectorised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import DType, int32
from autosched.lower.ir import (
    BufferRead,
    CompareIndex,
    ConstValue,
    IndexValue,
    Let,
    Memory,
    Op,
    Stmt,
    Store,
    Value,
    VarRef,
    walk,
)
from autosched.lower.ir_visitor import Node, map_parts

HIDDEN = "hidden"
"""Name of the operation that hides the range of an index from compilers; it is printed as a macro."""
_KINDS = frozenset({"data", "select", "min", "max", "prod"})


class BooleanIndices:
    """Finds and hides the indices of one kernel that are 0 or 1.

    Ranges ignore values from earlier iterations, so they may be too narrow. A range hidden without need costs one
    instruction.

    Args:
        body: The kernel's statements.
        rewrite: Applied to each value after its operands, in the same traversal.
    """

    def __init__(self, body: tuple[Stmt, ...], rewrite: Callable[[Value], Value] = lambda v: v) -> None:
        self._rewrite = rewrite
        self._names: dict[str, ix.Interval | None] = {}
        self._arrays: dict[str, ix.Interval | None] = {}
        self._pending: list[Stmt] = list(walk(body))

    def add(self, s: Stmt) -> None:
        """Add a statement made by a rewrite."""
        self._pending.append(s)

    def _evaluate_pending(self) -> None:
        """Find the ranges of names and local arrays. Evaluation is lazy: most kernels have no index that needs it."""
        pending, self._pending = self._pending, []
        for s in pending:
            self._evaluate(s)

    def _evaluate(self, s: Stmt) -> None:
        match s:
            case Let():
                self._names[s.name] = self.range_of(s.value)
            case Store() if s.buffer.memory is not Memory.GLOBAL:
                stored = None if s.combine else self.range_of(s.value)
                before = self._arrays.get(s.buffer.name, stored)
                self._arrays[s.buffer.name] = _hull([stored, before])

    def hidden(self, s: Node) -> Node:
        """Return a statement with the ranges of its boolean indices hidden, those of inner statements excluded."""
        return map_parts(s, indices=self._index, values=self._value)

    def _value(self, v: Value) -> Value:
        """Return a value with the ranges of its addresses hidden; other indices do not matter."""
        return self._rewrite(
            map_parts(v, indices=self._index if isinstance(v, BufferRead) else None, values=self._value)
        )

    def _index(self, e: ix.Index) -> ix.Index:
        if not any(isinstance(t, ix.Atom) for t, _ in ix.terms_of(e)):
            return e
        atoms = [t for t in ix.postorder(e) if t.kind in _KINDS]
        ranges = {t.key: self._data_range(t) for t in atoms if t.kind == "data"}
        boolean = {
            t.key for t in atoms if _is_boolean(ix.bounds(ix.Affine(((t, 1),), 0), ranges) if ranges else t.interval)
        }
        return ix.rewritten(e, lambda t, args: _hide(t, args) if t.key in boolean else None) if boolean else e

    def _data_range(self, t: ix.Atom) -> ix.Interval:
        self._evaluate_pending()
        lo, hi = self.range_of(t.payload) or t.interval
        lo, hi = max(lo, t.interval[0]), min(hi, t.interval[1])
        return (lo, hi) if lo <= hi else t.interval

    def range_of(self, v: Value) -> ix.Interval | None:
        """Return the range that a compiler may derive for an integral value; None for other floats."""
        if isinstance(v, Op) and v.dtype.is_float and v.name not in ("cast", "select"):
            return None  # most values of most kernels
        whole = _type_range(v.dtype)
        if v.dtype.kind == "b":
            return whole
        derived = self._derived_range(v)
        if derived is None:
            return whole
        return derived if whole is None or (whole[0] <= derived[0] and derived[1] <= whole[1]) else whole

    def _derived_range(self, v: Value) -> ix.Interval | None:
        match v:
            case ConstValue() if float(v.value).is_integer():
                return int(v.value), int(v.value)
            case IndexValue():
                lo, hi = ix.interval(v.index)
                return int(lo), int(hi)
            case CompareIndex():
                return 0, 1
            case VarRef():
                return self._names.get(v.name)
            case BufferRead() if v.buffer.memory is not Memory.GLOBAL:
                return self._arrays.get(v.buffer.name)
            case Op(name="select"):
                return _hull([self.range_of(a) for a in v.args[1:]])
            case Op(name="cast"):
                return self.range_of(v.args[0])
            case Op() if v.name in _RANGES:
                ranges = [self.range_of(a) for a in v.args]
                return None if any(r is None for r in ranges) else _RANGES[v.name]([r for r in ranges if r is not None])
        return None


def may_be_boolean(e: ix.Index) -> bool:
    """Whether an index of a pipeline depends on data, or has a minimum or maximum that is 0 or 1."""
    return any(t.kind in ("data", "select") or (t.kind in _KINDS and _is_boolean(t.interval)) for t in ix.postorder(e))


def _type_range(dtype: DType) -> ix.Interval | None:
    if dtype.kind == "b":
        return 0, 1
    return (dtype.min_value, dtype.max_value) if dtype.is_int else None


def _is_boolean(interval: ix.Interval) -> bool:
    return interval[0] >= 0 and interval[1] <= 1


def _hide(t: ix.Atom, args: Sequence[ix.Index]) -> ix.Index | None:
    """Return an atom wrapped in the operation that hides its range; None if an argument is hidden already."""
    if any(i.kind == "data" and _is_hidden(i) for a in args for i in ix.postorder(a)):
        return None
    rebuilt = ix.Affine(((t, 1),), 0) if t.kind == "data" else ix.rebuilt(t, args)
    if not isinstance(rebuilt, ix.Affine):
        return rebuilt
    value = t.payload if t.kind == "data" and t.payload.dtype.is_int else IndexValue(rebuilt, int32)
    return ix.data(Op(HIDDEN, (value,), value.dtype), *t.interval, t.key)


def _is_hidden(t: ix.Atom) -> bool:
    return isinstance(t.payload, Op) and t.payload.name == HIDDEN


def _hull(ranges: Sequence[ix.Interval | None]) -> ix.Interval | None:
    finite = [r for r in ranges if r is not None]
    if len(finite) < len(ranges) or not finite:
        return None
    return min(lo for lo, _ in finite), max(hi for _, hi in finite)


def _products(ranges: Sequence[ix.Interval]) -> ix.Interval:
    corners = [a * b for a in ranges[0] for b in ranges[1]]
    return min(corners), max(corners)


def _masked(ranges: Sequence[ix.Interval]) -> ix.Interval:
    least = [hi for lo, hi in ranges if lo >= 0]
    return (0, min(least)) if least else (min(lo for lo, _ in ranges) * 2 - 1, max(hi for _, hi in ranges))


def _combined(ranges: Sequence[ix.Interval]) -> ix.Interval | None:
    bits = max(hi.bit_length() for _, hi in ranges)
    return (0, (1 << bits) - 1) if all(lo >= 0 for lo, _ in ranges) else None


def _remainder(ranges: Sequence[ix.Interval]) -> ix.Interval | None:
    (lo, hi), (least, most) = ranges
    if least <= 0:
        return None
    return (lo, hi) if lo >= 0 and hi < least else (0, most - 1)


def _quotient(ranges: Sequence[ix.Interval]) -> ix.Interval | None:
    (lo, hi), (least, most) = ranges
    return (lo // most, hi // least) if lo >= 0 and least > 0 else None


_RANGES: Mapping[str, Callable[[Sequence[ix.Interval]], ix.Interval | None]] = {
    "add": lambda r: (r[0][0] + r[1][0], r[0][1] + r[1][1]),
    "sub": lambda r: (r[0][0] - r[1][1], r[0][1] - r[1][0]),
    "mul": _products,
    "neg": lambda r: (-r[0][1], -r[0][0]),
    "min": lambda r: (min(r[0][0], r[1][0]), min(r[0][1], r[1][1])),
    "max": lambda r: (max(r[0][0], r[1][0]), max(r[0][1], r[1][1])),
    "abs": lambda r: (0, max(abs(r[0][0]), abs(r[0][1]))),
    "not": lambda r: (-r[0][1] - 1, -r[0][0] - 1),
    "and": _masked,
    "or": _combined,
    "xor": _combined,
    "mod": _remainder,
    "floordiv": _quotient,
}
