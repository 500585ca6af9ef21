"""Compute 8- and 16-bit integers in 32 bits where the result is the same, for processors with 32-bit registers.

    (uint8)((uint16)((uint16)a + (uint16)b) + 1) >> 1)   ->   ((int)a + (int)b + 1) >> 1

A GPU computes in 32 bits; every conversion to a narrower type is an instruction that cuts off bits. Ranges of values
show which of them cut off nothing: those are dropped. Others stay, so that arithmetic wraps as the types say. Each
value keeps its number, and memory its types.

Not for processors with vectors, where narrow lanes are more lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import DType, int32
from autosched.lang.expr import COMPARISONS
from autosched.lower.ir import (
    ConstValue,
    For,
    If,
    IndexValue,
    KernelIR,
    Let,
    Op,
    Stmt,
    Store,
    StoreVector,
    Value,
    VarRef,
)

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
    return _Widener().statements(body)


def is_subword(dtype: DType) -> bool:
    """Whether a type is an integer of 8 or 16 bits."""
    return dtype.is_int and dtype.bits < int32.bits


@dataclass
class _Widener:
    """Rewrites one kernel; ``ranges`` are those of bound integers, ``widened`` holds those of a changed type."""

    ranges: dict[str, Range] = field(default_factory=dict)
    widened: set[str] = field(default_factory=set)

    def statements(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(self._statement(s) for s in body)

    def _statement(self, s: Stmt) -> Stmt:
        match s:
            case For():
                return replace(s, body=self.statements(s.body))
            case If():
                then = self.statements(s.then)
                return replace(s, condition=self.same(s.condition), then=then, orelse=self.statements(s.orelse))
            case Let():
                return Let(s.name, self._bound(s.name, s.value))
            case Store():
                return replace(s, value=self.same(s.value))
            case StoreVector():
                return replace(s, values=tuple(self.same(v) for v in s.values))
        return s

    def _bound(self, name: str, value: Value) -> Value:
        self.widened.discard(name)  # interior and border may use one name for two values
        if not is_subword(value.dtype) and value.dtype != int32:
            return self.same(value)
        wide = self.wide(value)
        self.ranges[name] = wide.lo, wide.hi
        self.widened.add(name)
        return wide.value

    def same(self, v: Value) -> Value:
        """Return a value in its own type."""
        if is_subword(v.dtype) and isinstance(v, Op | VarRef):
            return _cast(self.wide(v).value, v.dtype)
        if v.dtype == int32:
            return self.wide(v).value
        if not isinstance(v, Op):
            return v
        if v.name == "cast" or v.name in COMPARISONS:
            return Op(v.name, tuple([self._operand(a) for a in v.args]), v.dtype)
        return self._rebuilt(v)

    def _operand(self, v: Value) -> Value:
        """Return what a conversion or comparison reads: integers as int32, their number is the same."""
        return self.wide(v).value if is_subword(v.dtype) else self.same(v)

    def _rebuilt(self, v: Op) -> Op:
        return Op(v.name, tuple([self.same(a) for a in v.args]), v.dtype)

    def wide(self, v: Value) -> PromotedValue:
        """Return an integer of at most 32 bits as int32."""
        match v:
            case ConstValue():
                return PromotedValue(ConstValue(v.value, int32), int(v.value), int(v.value))
            case VarRef() if v.name in self.widened:
                return PromotedValue(VarRef(v.name, int32), *self.ranges[v.name])
            case IndexValue():
                lo, hi = ix.interval(v.index)
                if v.dtype.min_value <= lo and hi <= v.dtype.max_value:
                    return PromotedValue(IndexValue(v.index, int32), lo, hi)
            case Op():
                rule = _RULES.get(v.name)
                found = rule(self, v) if rule is not None else None
                return self._whole(self._rebuilt(v)) if found is None else found
        return self._whole(v)

    @staticmethod
    def _whole(v: Value) -> PromotedValue:
        """Return a value of which only the type is known."""
        return PromotedValue(_cast(v, int32), v.dtype.min_value, v.dtype.max_value)

    def wrapped(self, w: PromotedValue, dtype: DType) -> PromotedValue:
        """Return a value cut off to a type, which is nothing to do where it fits."""
        return w if w.fits(dtype) else self._whole(_cast(w.value, dtype))


_Rule = Callable[[_Widener, Op], PromotedValue | None]


def _cast(v: Value, dtype: DType) -> Value:
    if isinstance(v, Op) and v.name == "cast" and v.dtype == int32 and is_subword(dtype) and v.args[0].dtype == dtype:
        return v.args[0]
    return v if v.dtype == dtype else Op("cast", (v,), dtype)


def _arithmetic(self: _Widener, v: Op) -> PromotedValue:
    args = [self.wide(a) for a in v.args]
    if v.name == "neg":
        args.insert(0, PromotedValue(ConstValue(0, int32), 0, 0))
    a, b = args
    corners = {
        "add": (a.lo + b.lo, a.hi + b.hi),
        "sub": (a.lo - b.hi, a.hi - b.lo),
        "neg": (a.lo - b.hi, a.hi - b.lo),
        "mul": [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)],
    }[v.name]
    found = Op(v.name, tuple(w.value for w in args[-len(v.args) :]), int32)
    lo, hi = min(corners), max(corners)
    # int32 wraps, which leaves the low bits right
    exact = PromotedValue(found, lo, hi) if _FULL[0] <= lo and hi <= _FULL[1] else PromotedValue(found, *_FULL)
    return self.wrapped(exact, v.dtype)


def _extreme(self: _Widener, v: Op) -> PromotedValue:
    a, b = (self.wide(x) for x in v.args)
    pick = min if v.name == "min" else max
    return PromotedValue(Op(v.name, (a.value, b.value), int32), pick(a.lo, b.lo), pick(a.hi, b.hi))


def _select(self: _Widener, v: Op) -> PromotedValue:
    a, b = self.wide(v.args[1]), self.wide(v.args[2])
    return PromotedValue(
        Op("select", (self.same(v.args[0]), a.value, b.value), int32), min(a.lo, b.lo), max(a.hi, b.hi)
    )


def _divided(self: _Widener, v: Op) -> PromotedValue | None:
    divisor = v.args[1]
    if not isinstance(divisor, ConstValue) or divisor.value <= 0:
        return None
    a, c = self.wide(v.args[0]), int(divisor.value)
    found = Op(v.name, (a.value, ConstValue(c, int32)), int32)
    if v.name == "floordiv":
        return PromotedValue(found, a.lo // c, a.hi // c)
    return PromotedValue(found, 0, min(a.hi, c - 1) if a.lo >= 0 else c - 1)


def _shifted(self: _Widener, v: Op) -> PromotedValue | None:
    by = v.args[1]
    if not isinstance(by, ConstValue) or not 0 <= by.value < v.dtype.bits:
        return None
    a, n = self.wide(v.args[0]), int(by.value)
    found = Op(v.name, (a.value, ConstValue(n, int32)), int32)
    if v.name == "shr":
        return PromotedValue(found, a.lo >> n, a.hi >> n)
    exact = _FULL[0] <= a.lo << n and a.hi << n <= _FULL[1]
    return self.wrapped(PromotedValue(found, a.lo << n, a.hi << n) if exact else PromotedValue(found, *_FULL), v.dtype)


def _bitwise(self: _Widener, v: Op) -> PromotedValue:
    a, b = (self.wide(x) for x in v.args)
    lo, hi = v.dtype.min_value, v.dtype.max_value
    if v.name == "and" and (a.lo >= 0 or b.lo >= 0):
        lo, hi = 0, min(w.hi for w in (a, b) if w.lo >= 0)
    return PromotedValue(Op(v.name, (a.value, b.value), int32), lo, hi)


def _converted(self: _Widener, v: Op) -> PromotedValue | None:
    source = v.args[0].dtype
    if not is_subword(source) and source != int32:
        return None
    return self.wrapped(self.wide(v.args[0]), v.dtype)


_RULES: dict[str, _Rule] = {
    **dict.fromkeys(("add", "sub", "mul", "neg"), _arithmetic),
    **dict.fromkeys(("min", "max"), _extreme),
    **dict.fromkeys(("floordiv", "mod"), _divided),
    **dict.fromkeys(("shl", "shr"), _shifted),
    **dict.fromkeys(("and", "or", "xor"), _bitwise),
    "select": _select,
    "cast": _converted,
}
