"""Compute 8- and 16-bit integers in 32 bits where the result is the same, for processors with 32-bit registers.

    (uint8)((uint16)((uint16)a + (uint16)b) + 1) >> 1)   ->   ((int)a + (int)b + 1) >> 1

A GPU computes in 32 bits, and each conversion to a narrower type is an instruction. Ranges of values prove which
conversions change no value; these are dropped. The others stay, so that arithmetic wraps as its type requires. Values
and the types of arrays in memory do not change.

The pass is for CUDA only: on processors with vectors, narrower lanes are more lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import DType, int32
from autosched.lang.expr import COMPARISONS
from autosched.lower.ir import (
    ConstValue,
    IndexValue,
    KernelIR,
    Let,
    Op,
    Stmt,
    Value,
    VarRef,
)
from autosched.lower.ir_visitor import map_parts

_FULL = (int32.min_value, int32.max_value)
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PromotedValue:
    """An int32 value, and the inclusive range it lies in."""

    value: Value
    lo: int
    hi: int

    def fits(self, dtype: DType) -> bool:
        """Whether a type holds every number of the range."""
        return dtype.min_value <= self.lo and self.hi <= dtype.max_value


def promote_integers(kernel: KernelIR) -> KernelIR:
    """Return a kernel that computes narrow integers as int32.

    Rewrite:
        let x: uint8 = (uint8)e   ->   let x: int32 = e      where e lies in [0, 255]
    """
    return replace(kernel, body=promote_statements(kernel.body))


def promote_statements(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Return the statements of a kernel, or of a part of it that uses no names from outside but parameters."""
    return _Promoter().statements(body)


def is_subword(dtype: DType) -> bool:
    """Whether a type is an integer of 8 or 16 bits."""
    return dtype.is_int and dtype.bits < int32.bits


@dataclass
class _Promoter:
    """Rewrites one kernel.

    Attributes:
        ranges: Inclusive range of each bound integer, by name.
        promoted: Names whose type has become int32.
    """

    ranges: dict[str, Range] = field(default_factory=dict)
    promoted: set[str] = field(default_factory=set)

    def statements(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(self._statement(s) for s in body)

    def _statement(self, s: Stmt) -> Stmt:
        if isinstance(s, Let):
            return map_parts(s, values=lambda value: self._bound(s.name, value))
        return map_parts(s, values=self.in_own_type, bodies=self.statements)

    def _bound(self, name: str, value: Value) -> Value:
        self.promoted.discard(name)  # interior and boundary code may use one name for two values
        if not is_subword(value.dtype) and value.dtype != int32:
            return self.in_own_type(value)
        wide = self.as_int32(value)
        self.ranges[name] = wide.lo, wide.hi
        self.promoted.add(name)
        return wide.value

    def in_own_type(self, v: Value) -> Value:
        """Return a value in its own type."""
        if is_subword(v.dtype) and isinstance(v, Op | VarRef):
            return _cast(self.as_int32(v).value, v.dtype)
        if v.dtype == int32:
            return self.as_int32(v).value
        if not isinstance(v, Op):
            return v
        if v.name == "cast" or v.name in COMPARISONS:
            return map_parts(v, values=self._operand)
        return self._rebuilt(v)

    def _operand(self, v: Value) -> Value:
        """Return an operand of a conversion or comparison: narrow integers as int32, which has the same value."""
        return self.as_int32(v).value if is_subword(v.dtype) else self.in_own_type(v)

    def _rebuilt(self, v: Op) -> Op:
        return map_parts(v, values=self.in_own_type)

    def as_int32(self, v: Value) -> PromotedValue:
        """Return an integer of at most 32 bits as int32, with its range."""
        match v:
            case ConstValue():
                return PromotedValue(ConstValue(v.value, int32), int(v.value), int(v.value))
            case VarRef() if v.name in self.promoted:
                return PromotedValue(VarRef(v.name, int32), *self.ranges[v.name])
            case IndexValue():
                lo, hi = ix.interval(v.index)
                if v.dtype.min_value <= lo and hi <= v.dtype.max_value:
                    return PromotedValue(IndexValue(v.index, int32), lo, hi)
            case Op():
                rule = _RULES.get(v.name)
                promoted = rule(self, v) if rule is not None else None
                return self._of_type(self._rebuilt(v)) if promoted is None else promoted
        return self._of_type(v)

    @staticmethod
    def _of_type(v: Value) -> PromotedValue:
        """Return a value whose range is that of its type."""
        return PromotedValue(_cast(v, int32), v.dtype.min_value, v.dtype.max_value)

    def converted(self, w: PromotedValue, dtype: DType) -> PromotedValue:
        """Return a value converted to a narrower type; no operation is needed where the range fits."""
        return w if w.fits(dtype) else self._of_type(_cast(w.value, dtype))


_Rule = Callable[[_Promoter, Op], PromotedValue | None]


def _cast(v: Value, dtype: DType) -> Value:
    if isinstance(v, Op) and v.name == "cast" and v.dtype == int32 and is_subword(dtype) and v.args[0].dtype == dtype:
        return v.args[0]
    return v if v.dtype == dtype else Op("cast", (v,), dtype)


def _arithmetic(self: _Promoter, v: Op) -> PromotedValue:
    args = [self.as_int32(a) for a in v.args]
    if v.name == "neg":
        args.insert(0, PromotedValue(ConstValue(0, int32), 0, 0))
    a, b = args
    corners = {
        "add": (a.lo + b.lo, a.hi + b.hi),
        "sub": (a.lo - b.hi, a.hi - b.lo),
        "neg": (a.lo - b.hi, a.hi - b.lo),
        "mul": [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)],
    }[v.name]
    result = Op(v.name, tuple(w.value for w in args[-len(v.args) :]), int32)
    lo, hi = min(corners), max(corners)
    # Overflow of int32 wraps around, so the low bits are right.
    exact = PromotedValue(result, lo, hi) if _FULL[0] <= lo and hi <= _FULL[1] else PromotedValue(result, *_FULL)
    return self.converted(exact, v.dtype)


def _extreme(self: _Promoter, v: Op) -> PromotedValue:
    a, b = (self.as_int32(x) for x in v.args)
    pick = min if v.name == "min" else max
    return PromotedValue(Op(v.name, (a.value, b.value), int32), pick(a.lo, b.lo), pick(a.hi, b.hi))


def _select(self: _Promoter, v: Op) -> PromotedValue:
    a, b = self.as_int32(v.args[1]), self.as_int32(v.args[2])
    return PromotedValue(
        Op("select", (self.in_own_type(v.args[0]), a.value, b.value), int32), min(a.lo, b.lo), max(a.hi, b.hi)
    )


def _divided(self: _Promoter, v: Op) -> PromotedValue | None:
    divisor = v.args[1]
    if not isinstance(divisor, ConstValue) or divisor.value <= 0:
        return None
    a, c = self.as_int32(v.args[0]), int(divisor.value)
    result = Op(v.name, (a.value, ConstValue(c, int32)), int32)
    if v.name == "floordiv":
        return PromotedValue(result, a.lo // c, a.hi // c)
    return PromotedValue(result, 0, min(a.hi, c - 1) if a.lo >= 0 else c - 1)


def _shifted(self: _Promoter, v: Op) -> PromotedValue | None:
    by = v.args[1]
    if not isinstance(by, ConstValue) or not 0 <= by.value < v.dtype.bits:
        return None
    a, n = self.as_int32(v.args[0]), int(by.value)
    result = Op(v.name, (a.value, ConstValue(n, int32)), int32)
    if v.name == "shr":
        return PromotedValue(result, a.lo >> n, a.hi >> n)
    exact = _FULL[0] <= a.lo << n and a.hi << n <= _FULL[1]
    lo, hi = (a.lo << n, a.hi << n) if exact else _FULL
    return self.converted(PromotedValue(result, lo, hi), v.dtype)


def _bitwise(self: _Promoter, v: Op) -> PromotedValue:
    a, b = (self.as_int32(x) for x in v.args)
    lo, hi = v.dtype.min_value, v.dtype.max_value
    if v.name == "and" and (a.lo >= 0 or b.lo >= 0):
        lo, hi = 0, min(w.hi for w in (a, b) if w.lo >= 0)
    return PromotedValue(Op(v.name, (a.value, b.value), int32), lo, hi)


def _converted(self: _Promoter, v: Op) -> PromotedValue | None:
    source = v.args[0].dtype
    if not is_subword(source) and source != int32:
        return None
    return self.converted(self.as_int32(v.args[0]), v.dtype)


def _truncated(self: _Promoter, v: Op) -> PromotedValue:
    return PromotedValue(Op("fptosi", (self.in_own_type(v.args[0]),), int32), v.dtype.min_value, v.dtype.max_value)


_RULES: dict[str, _Rule] = {
    **dict.fromkeys(("add", "sub", "mul", "neg"), _arithmetic),
    **dict.fromkeys(("min", "max"), _extreme),
    **dict.fromkeys(("floordiv", "mod"), _divided),
    **dict.fromkeys(("shl", "shr"), _shifted),
    **dict.fromkeys(("and", "or", "xor"), _bitwise),
    "select": _select,
    "cast": _converted,
    "fptosi": _truncated,
}
