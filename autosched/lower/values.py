"""From language expressions to typed values at a point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from autosched.analysis import index as ix
from autosched.analysis.bound import BoundStage
from autosched.lang.dtypes import bool_, int64
from autosched.lang.expr import COMPARISONS, Binary, Call, Cast, Const, Expr, Load, Param, Select, Unary
from autosched.lower.ir import CompareIndex, ConstValue, IndexValue, Op, Ref, Value
from autosched.lower.scope import Condition

if TYPE_CHECKING:
    from autosched.lower.kernel import BodyBuilder


@dataclass
class Point:
    """A stage evaluated at symbolic indices (by dimension and reduction variable)."""

    stage: BoundStage
    at: Mapping[str, ix.Index]
    memo: dict[int, Value] = field(default_factory=dict)


class ValueLowerer:
    """Lowers the expressions of one kernel body."""

    def __init__(self, body: BodyBuilder) -> None:
        self.body = body

    def value(self, e: Expr, p: Point) -> Value:
        """Return the value of an expression at a point."""
        known = p.memo.get(id(e))
        if known is not None:
            return known
        for inner in reversed(p.stage.graph.arithmetic(e, p.memo)):  # Python's recursion would not reach the bottom
            self._bound(inner, p)
        return self._bound(e, p)

    def _bound(self, e: Expr, p: Point) -> Value:
        """Lower an expression, under a name where that is better, and remember it."""
        value = self._lower(e, p)
        if isinstance(value, Op) and p.stage.graph.deserves_name(e):
            value = self.body.out.let(value, "t")
        p.memo[id(e)] = value
        return value

    def index(self, e: Expr, p: Point) -> ix.Index:
        """Return an integer expression at a point as an exact index."""
        return self.symbolic(p.stage.index_of(e), p)

    def symbolic(self, i: ix.Index, p: Point) -> ix.Index:
        """Return one of the stage's symbolic indices at a point."""

        def on_data(t: ix.Atom) -> object:
            value = self.value(t.payload, p)
            if t.kind == "select":
                if isinstance(value, ConstValue):
                    return bool(value.value), ""
                ref = self.body.out.let(value, "inside")
                return ref, _text(ref)
            ref = self.body.out.let(value, "at")
            if isinstance(ref, ConstValue):
                return int(ref.value)
            return ix.data(ref, *t.interval, text=_text(ref))

        found: ix.Index = ix.substitute(i, p.at, on_data)
        return found

    def _lower(self, e: Expr, p: Point) -> Value:
        if e.weak and e.dtype.kind == "i":
            return self._from_index(self.index(e, p), e)
        match e:
            case Const():
                return ConstValue(e.value, e.dtype)
            case Param():
                return self.body.scalar(e.name, e.dtype)
            case Load():
                return self._load(e, p)
            case Cast(a=a) if a.weak and a.dtype.kind == "i":
                return self._from_index(self.index(a, p), e)
            case Cast(a=Cast(a=a, dtype=through)) if through == int64 and a.weak and a.dtype.kind == "i":
                return self._from_index(self.index(a, p), e)
            case Cast(a=a):
                inner = self.value(a, p)
                return inner if inner.dtype == e.dtype else Op("cast", (inner,), e.dtype)
            case Binary() if e.op in COMPARISONS and e.a.weak and e.a.dtype.kind == "i" and e.b.weak:
                return self.compare(e.op, self.index(e.a, p), self.index(e.b, p))
            case Binary():
                return fold(Op(e.op, (self.value(e.a, p), self.value(e.b, p)), e.dtype))
            case Unary():
                return fold(Op(e.op, (self.value(e.a, p),), e.dtype))
            case Select():
                return self._select(e, p)
            case Call():
                return Op(e.name, tuple(self.value(a, p) for a in e.args), e.dtype)
        raise TypeError(f"{type(e).__name__} must have been replaced when shapes were bound")

    def _from_index(self, i: ix.Index, e: Expr) -> Value:
        dtype = e.dtype
        if isinstance(i, int):
            if dtype.is_float and dtype.bits != 16:
                return ConstValue(float(np.int64(i).astype(dtype.numpy)), dtype)
            if not dtype.is_float:
                return ConstValue(bool(i) if dtype.kind == "b" else dtype.wrapped(i), dtype)
        self.body.out.note(i)
        return IndexValue(i, dtype)

    def compare(self, op: str, a: ix.Index, b: ix.Index) -> Value:
        """Return a comparison of indices, decided where the ranges decide it."""
        difference = ix.sub(a, b)
        lo, hi = ix.interval(difference)
        decided = {
            "lt": (hi < 0, lo >= 0), "le": (hi <= 0, lo > 0), "gt": (lo > 0, hi <= 0), "ge": (lo >= 0, hi < 0),
            "eq": (lo == hi == 0, lo > 0 or hi < 0), "ne": (lo > 0 or hi < 0, lo == hi == 0),
        }[op]  # fmt: skip
        if decided[0] or decided[1]:
            return ConstValue(decided[0], bool_)
        self.body.out.note(difference)
        shifted = {"lt": difference, "ge": difference, "le": ix.add(difference, -1), "gt": ix.add(difference, -1)}
        if op in shifted:  # decided when never negative, or always negative
            self.body.out.require(Condition("split", shifted[op]))
        else:
            self.body.out.require(Condition("nonzero", difference))
        return CompareIndex(op, a, b, bool_)

    def _select(self, e: Select, p: Point) -> Value:
        condition = self.value(e.cond, p)
        if isinstance(condition, ConstValue):
            return self.value(e.t if condition.value else e.f, p)
        if e.dtype == bool_:  # as logic, since gcc forms no vectors of choices between conditions
            condition = self.body.out.let(condition, "t")
            chosen = fold(Op("and", (condition, self.value(e.t, p)), bool_))
            other = fold(Op("and", (Op("not", (condition,), bool_), self.value(e.f, p)), bool_))
            return fold(Op("or", (chosen, other), bool_))
        return Op("select", (condition, self.value(e.t, p), self.value(e.f, p)), e.dtype)

    def _load(self, e: Load, p: Point) -> Value:
        name = p.stage.names[id(e.source)]
        at = tuple(self.index(i, p) for i in e.indices)
        if name in self.body.plan.inlined:
            return self._inline(name, at, e.component)
        return self.body.read(name, at, e.component, p)

    def _inline(self, name: str, at: tuple[ix.Index, ...], component: int) -> Value:
        func = self.body.bound.funcs[name]
        key = ("inline", name, component, *(ix.key(i) for i in at))
        known = self.body.out.find(key)
        if known is not None:
            return known  # type: ignore[no-any-return]
        point = Point(func.stages[0], dict(zip(func.dims, at, strict=True)))
        value = self.value(func.stages[0].values[component], point)
        if isinstance(value, Ref | ConstValue):
            return value
        return self.body.out.let(value, name, key)


def fold(op: Op) -> Value:
    """Fold logic with constant conditions and ``x + 0``-free trivia that inlined boundaries leave behind."""
    if op.name in ("and", "or") and op.dtype == bool_:
        for a, b in (op.args, op.args[::-1]):
            if isinstance(a, ConstValue):
                if op.name == "and":
                    return b if a.value else a
                return a if a.value else b
    if op.name == "not" and op.dtype == bool_ and isinstance(op.args[0], ConstValue):
        return ConstValue(not op.args[0].value, bool_)
    return op


def _text(v: Value) -> str:
    return v.name if isinstance(v, Ref) else repr(v)
