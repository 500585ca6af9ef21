"""Ranges of index expressions over a loop nest: exact if they read no data, else by interval arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.lang.expr import Binary, Call, Cast, Const, Expr, Load, Param, RVar, Select, ShapeDim, Unary, Var
from autosched.reference import intervals
from autosched.reference.buffers import Loop, LoopKey, extent, scope_of
from autosched.reference.intervals import Interval
from autosched.reference.numbering import Numbering, loop_key
from autosched.reference.program import Bindings, ReferenceProgram

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

    def of(self, n: int, facts: Facts | None = None) -> Interval:
        """Return the range of expression ``n``, given the ranges implied by enclosing conditions."""
        if facts:
            return self._derive(n, facts)
        if n not in self._cache:
            self._cache[n] = self._derive(n, {})
        return self._cache[n]

    def _derive(self, n: int, facts: Facts) -> Interval:
        numbering = self._numbering
        loops = [(key, self._loops[key]) for key in numbering.loops[n]]
        if not numbering.sources[n] and not numbering.nodes[n].dtype.is_float and extent(loops) <= _EXACT_POINTS:
            return self._evaluate(n, loops)
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
                return intervals.whole(node.dtype)
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
        when_true = self._refine(condition, True, facts)
        when_false = self._refine(condition, False, facts)
        return self.of(t, when_true).hull(self.of(f, when_false))

    def _refine(self, condition: int, truth: bool, facts: Facts) -> Facts:
        """Return the facts, extended by those that follow from a condition or its negation."""
        node, operands = self._numbering.nodes[condition], self._numbering.operands[condition]
        match node:
            case Unary(op="not"):
                return self._refine(operands[0], not truth, facts)
            case Binary(op="and") if truth and node.dtype.kind == "b":
                return self._refine(operands[1], True, self._refine(operands[0], True, facts))
            case Binary(op="or") if not truth and node.dtype.kind == "b":
                return self._refine(operands[1], False, self._refine(operands[0], False, facts))
            case Binary(op=op) if op in _NEGATED:
                a, b = operands
                op = op if truth else _NEGATED[op]
                refined = dict(facts)
                refined[a] = self._compared(op, a, b, node.a, facts, truth)
                refined[b] = self._compared(_SWAPPED[op], b, a, node.b, facts, truth)
                return refined
        return facts

    def _compared(self, op: str, a: int, b: int, expr: Expr, facts: Facts, truth: bool) -> Interval:
        """Return the range of ``a`` given ``a op b``; a false comparison does not exclude NaN."""
        x, y = self.of(a, facts), self.of(b, facts)
        if expr.dtype.is_float and not truth and (x.nan or y.nan):
            # If b is NaN, the comparison bounds nothing; if a is NaN, it stays NaN.
            return x if y.nan else x.meet(Interval(*_implied(op, y, False), nan=True))
        return x.meet(Interval(*_implied(op, y, not expr.dtype.is_float)))


def _implied(op: str, y: Interval, integer: bool) -> tuple[float, float]:
    step = 1 if integer else 0
    match op:
        case "lt":
            return float("-inf"), y.high - step
        case "le":
            return float("-inf"), y.high
        case "gt":
            return y.low + step, float("inf")
        case "ge":
            return y.low, float("inf")
        case "eq":
            return y.low, y.high
    return float("-inf"), float("inf")
