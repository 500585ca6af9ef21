"""Ranges of index expressions over a loop nest: exact if they read no data, else by interval arithmetic."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from autosched.lang.dtypes import DType
from autosched.lang.expr import Binary, Call, Cast, Const, Expr, Load, Param, RVar, Select, ShapeDim, Unary, Var
from autosched.reference import intervals
from autosched.reference.buffers import Loop, LoopKey, extent, scope_of
from autosched.reference.intervals import Interval, Number
from autosched.reference.numbering import Numbering, loop_key
from autosched.reference.program import Bindings, ReferenceProgram

ENDLESS = 1 << 40
"""End of a loop without a range."""
NEVER = -1
"""Number of a fact that a condition never holds."""
_EXACT_POINTS = 1 << 22
_NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}
_SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
Facts = Mapping[int, Interval]


class Ranges:
    """Ranges of a stage's expressions over its loops, none of which is empty."""

    def __init__(self, numbering: Numbering, bindings: Bindings, loops: Sequence[Loop]) -> None:
        self._numbering = numbering
        self._bindings = bindings
        self._loops: dict[LoopKey, range] = dict(loops)
        self._cache: dict[int, Interval] = {}
        self._given: dict[int, tuple[Facts, dict[int, Interval]]] = {}  # by id of the facts, which are kept

    def of(self, n: int, facts: Facts | None = None) -> Interval:
        """Return the range of expression ``n``, given the ranges implied by enclosing conditions."""
        cache = self._given.setdefault(id(facts), (facts, {}))[1] if facts else self._cache
        if n not in cache:
            cache[n] = self._derive(n, facts or {})
        return cache[n]

    def _derive(self, n: int, facts: Facts) -> Interval:
        numbering = self._numbering
        loops = [(key, self._loops[key]) for key in numbering.loops[n]]
        if not numbering.sources[n] and not numbering.nodes[n].dtype.is_float and extent(loops) <= _EXACT_POINTS:
            interval = self._evaluate(n, loops)
            if facts and numbering.guarded:
                interval = interval.meet(self._rule(n, facts))
        else:
            interval = self._rule(n, facts)
        return interval.meet(facts[n]) if n in facts else interval

    def _evaluate(self, n: int, loops: Sequence[Loop]) -> Interval:
        (value,) = ReferenceProgram(self._numbering, [n], self._bindings).run(scope_of(loops))
        return Interval(int(value.min()), int(value.max()))

    def _rule(self, n: int, facts: Facts) -> Interval:
        node, operands = self._numbering.nodes[n], self._numbering.operands[n]
        match node:
            case Var() | RVar():
                r = self._loops[loop_key(node)]
                return Interval(r.start, r.stop - 1)
            case Const() | Param() | ShapeDim():
                (value,) = ReferenceProgram(self._numbering, [n], self._bindings).run({})
                return Interval(value.item(), value.item(), bool(value != value))
            case Load():
                stored = self._bindings.stored.get(node.source)
                return intervals.whole(node.dtype) if stored is None else stored[node.component]
            case Select():
                return self._select(operands, facts)
            case Unary():
                return intervals.unary(node.op, self.of(operands[0], facts), node.dtype)
            case Binary():
                a, b = (self.of(o, facts) for o in operands)
                return intervals.binary(node.op, a, b, node.dtype, exact=node.weak)
            case Cast():
                return intervals.convert(self.of(operands[0], facts), node.a.dtype, node.dtype, weak=node.a.weak)
            case Call():
                return intervals.call(node.name, self.of(operands[0], facts), node.dtype)
        raise TypeError(f"{type(node).__name__} has no range")

    def _select(self, operands: tuple[int, ...], facts: Facts) -> Interval:
        condition, t, f = operands
        when_true = self.refine(condition, True, facts)
        when_false = self.refine(condition, False, facts)
        return self.of(t, when_true).hull(self.of(f, when_false))

    def refine(self, condition: int, truth: bool, facts: Facts, wanted: Collection[int] | None = None) -> Facts:
        """Return the facts, extended by those that follow from a condition or its negation.

        Args:
            condition: Number of the condition.
            truth: Whether it holds or fails.
            facts: The facts before.
            wanted: Numbers of the expressions to find facts about; all by default.
        """
        node, operands = self._numbering.nodes[condition], self._numbering.operands[condition]
        match node:
            case Unary(op="not"):
                return self.refine(operands[0], not truth, facts, wanted)
            case Binary(op="and") if truth and node.dtype.kind == "b":
                return self.refine(operands[1], True, self.refine(operands[0], True, facts, wanted), wanted)
            case Binary(op="or") if not truth and node.dtype.kind == "b":
                return self.refine(operands[1], False, self.refine(operands[0], False, facts, wanted), wanted)
            case Binary(op=op) if op in _NEGATED:
                a, b = operands
                op = op if truth else _NEGATED[op]
                refined = dict(facts)
                if wanted is not None and self._is_never(op, (a, b), truth, facts, wanted):
                    refined[NEVER] = Interval(0, 0)
                for one, other, expr, relation in ((a, b, node.a, op), (b, a, node.b, _SWAPPED[op])):
                    if wanted is None or self._is_in(wanted, one):
                        self._refine_number(refined, one, self._compared(relation, one, other, expr, facts, truth))
                return refined
        return facts

    def _is_never(self, op: str, operands: tuple[int, int], truth: bool, facts: Facts, wanted: Collection[int]) -> bool:
        """Whether a comparison of coordinates or of wanted expressions never holds; one that fails may be of a NaN."""
        numbering, (a, b) = self._numbering, operands
        dtype = numbering.nodes[a].dtype
        if (dtype.is_float and not truth) or not (a in wanted or b in wanted or not numbering.sources[a]):
            return False
        x, (low, high) = self.of(a, facts), _implied(op, self.of(b, facts), dtype)
        return max(x.low, low) > min(x.high, high)

    def _is_in(self, wanted: Collection[int], n: int) -> bool:
        return n in wanted or any(o in wanted for o in self._widened(n))

    def _refine_number(self, facts: dict[int, Interval], n: int, r: Interval) -> None:
        """Add the range of a number, and of what it is converted from without a change of value."""
        for e in (n, *self._widened(n)):
            facts[e] = r

    def _widened(self, n: int) -> list[int]:
        """Return the integers that a conversion to a wider type preserves."""
        integers, numbering = [], self._numbering
        while isinstance(node := numbering.nodes[n], Cast) and node.dtype.is_int and node.a.dtype.is_int:
            inner, outer = intervals.whole(node.a.dtype), intervals.whole(node.dtype)
            if node.a.weak or inner.low < outer.low or inner.high > outer.high:
                break
            (n,) = numbering.operands[n]
            integers.append(n)
        return integers

    def _compared(self, op: str, a: int, b: int, expr: Expr, facts: Facts, truth: bool) -> Interval:
        """Return the range of ``a`` given ``a op b``; a false comparison does not exclude NaN."""
        x, y = self.of(a, facts), self.of(b, facts)
        if expr.dtype.is_float and not truth and (x.nan or y.nan):
            # If b is NaN, the comparison bounds nothing; if a is NaN, it stays NaN.
            return x if y.nan else x.meet(Interval(*_implied(op, y, expr.dtype), nan=True))
        return x.meet(Interval(*_implied(op, y, expr.dtype)))


def _implied(op: str, y: Interval, dtype: DType) -> tuple[float, float]:
    """Return the range of a number of a type that compares so with a number of ``y``."""
    match op:
        case "lt":
            return float("-inf"), _next(y.high, -math.inf, dtype)
        case "le":
            return float("-inf"), y.high
        case "gt":
            return _next(y.low, math.inf, dtype), float("inf")
        case "ge":
            return y.low, float("inf")
        case "eq":
            return y.low, y.high
    return float("-inf"), float("inf")


def _next(number: Number, towards: float, dtype: DType) -> Number:
    """Return the next number of a type towards an infinity."""
    if not dtype.is_float:
        return number + (1 if towards > 0 else -1)
    to = dtype.scalar
    return float(np.nextafter(to(number), to(towards)))
