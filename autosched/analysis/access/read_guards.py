"""Reads that a condition guards: their indices are clamped to the range that follows from the condition.

    select((i >= 0) & (i < 20), table[i], v)    ->    select((i >= 0) & (i < 20), table[min(max(i, 0), 19)], v)

The clamp changes nothing where the arm is selected. Elsewhere the read has no effect, and it stays in range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.analysis.indices import index as ix
from autosched.analysis.indices.condition_facts import (
    Fact,
    compared_integers,
    implied_facts,
    range_given_facts,
)
from autosched.analysis.indices.float_facts import implied_conversions
from autosched.analysis.indices.terms import UNBOUNDED
from autosched.analysis.indices.to_index import Memo, to_index
from autosched.lang import functions
from autosched.lang.expr import Binary, Cast, Expr, Load, Select, children, postorder, rebuild, walk
from autosched.lang.func import Definition, Func

MOST_FACTS = 64
"""Facts kept for one expression, the innermost conditions first: a chain of selects would take quadratic time."""
Facts = Mapping[str, Fact]
"""Facts about indices by key of the index."""
Limits = tuple[int | None, int | None]
"""Smallest and largest value; None where the index is not clamped."""


def guard_reads(func: Func, definition: Definition, memo: Memo, written: dict[int, Expr]) -> Definition:
    """Return a definition whose guarded reads have clamped indices.

    Conditions are those of selects, for either arm, and the left operands of logical operators, for the right one. An
    expression that several users share is guarded by what all of them imply. An update's reads of its own Func at
    coordinates keep their form, on which its dependences rest.

    In indices, arms of selects between converted floating-point numbers are clamped too: generated code may round the
    number that is compared and the one that is converted differently.

    Args:
        func: The Func.
        definition: A definition with constant shapes and parameters, whose equal expressions are the same object.
        memo: The indices of reads with known ranges by ``id``, as in `to_index`.
        written: Gets the indices before clamping, by ``id`` of the clamped ones.
    """
    return _Guards(definition, memo).guarded(func, written)


class _Guards:
    """The conditions around the expressions of one definition."""

    def __init__(self, definition: Definition, memo: Memo) -> None:
        self._definition, self._known, self._memo = definition, memo, dict(memo)
        self._roots = (*definition.indices, *definition.values)
        nodes: dict[int, Expr] = {}
        for node in postorder(self._roots, nodes):
            nodes[id(node)] = node
        self._order = list(nodes.values())
        loads = [e for e in self._order if isinstance(e, Load)]
        self._in_indices = {id(n) for n in walk(*definition.indices, *(i for e in loads for i in e.indices))}
        self._conversions = [e for e in self._order if isinstance(e, Cast) and e.dtype.is_int and e.a.dtype.is_float]
        self._arms: dict[int, tuple[Limits, Limits]] = {}  # limits of the arms of selects in indices, by id
        self._facts: dict[int, Facts] = {id(e): {} for e in self._roots}
        for node in reversed(self._order):  # users before operands
            self._visit(node)

    def guarded(self, func: Func, written: dict[int, Expr]) -> Definition:
        """Return the definition with clamps."""
        done: dict[int, Expr] = {}
        for node in self._order:
            new = [done[id(c)] for c in children(node)]
            if isinstance(node, Load):
                facts = list(self._facts[id(node)].values())
                for k, e in enumerate(node.indices):
                    if node.source is not func or _reads_data(e):
                        new[k] = _clamped(new[k], self._limits(e, facts))
                        written[id(new[k])] = e
            elif id(node) in self._arms:
                limits = self._arms[id(node)]
                new = [new[0], *(_clamped(n, at) for n, at in zip(new[1:], limits, strict=True))]
            done[id(node)] = rebuild(node, new)
        d = self._definition
        indices, values = (tuple(done[id(e)] for e in part) for part in (d.indices, d.values))
        return Definition(indices, values, d.rvars, d.location)

    def _visit(self, node: Expr) -> None:
        """Add the facts that hold for the operands of a node."""
        own = self._facts[id(node)]
        match node:
            case Select():
                self._add(node.cond, own)
                self._add(node.t, self._given(own, node.cond, True))
                self._add(node.f, self._given(own, node.cond, False))
                if node.dtype.is_int and id(node) in self._in_indices:
                    facts = [self._of_conversions(node.cond, truth) for truth in (True, False)]
                    if any(facts):
                        self._arms[id(node)] = self._limits(node.t, facts[0]), self._limits(node.f, facts[1])
            case Binary(op="and" | "or") if node.dtype.kind == "b":
                self._add(node.a, own)
                self._add(node.b, self._given(own, node.a, node.op == "and"))
            case _:
                for c in children(node):
                    self._add(c, own)

    def _add(self, e: Expr, facts: Facts) -> None:
        before = self._facts.get(id(e))
        self._facts[id(e)] = facts if before is None else _common(before, facts)

    def _given(self, outer: Facts, condition: Expr, truth: bool) -> Facts:
        """Return facts together with those that follow from a condition or its negation."""
        for e in compared_integers(condition):
            to_index(e, self._memo)
        return _joined(outer, [*implied_facts(condition, truth, self._memo), *self._of_conversions(condition, truth)])

    def _of_conversions(self, condition: Expr, truth: bool) -> list[Fact]:
        implied = implied_conversions(condition, truth, self._conversions)
        return [(to_index(e, self._memo), r) for e, r in implied]

    def _limits(self, e: Expr, facts: Sequence[Fact]) -> Limits:
        """Return the limits of an index that facts imply, None where it has them in any case."""
        index = to_index(e, self._memo)
        if any(_is_contradictory(f) for f in facts):  # the read never has an effect
            return 0, 0
        if not facts or isinstance(index, int):
            return None, None
        (low, high), (lo, hi) = ix.interval(index), range_given_facts(index, facts)
        if _reads_data(e):
            least, most = self._given_data(e, facts)
            lo, hi = (max(lo, least), min(hi, most)) if max(lo, least) <= min(hi, most) else (lo, hi)
        return lo if lo > max(low, -UNBOUNDED) else None, hi if hi < min(high, UNBOUNDED) else None

    def _given_data(self, e: Expr, facts: Sequence[Fact]) -> ix.Interval:
        """Return the range of an index whose arithmetic wraps for other data than the facts allow."""
        given = dict(self._known)
        for number, (fact, (low, high)) in enumerate(facts):
            match ix.terms_of(fact):
                case ((ix.Atom(kind="data", payload=Expr() as data) as atom, 1),) if isinstance(fact, ix.Affine):
                    before = ix.interval(given[id(data)]) if id(data) in given else atom.interval
                    lo, hi = max(before[0], low - fact.const), min(before[1], high - fact.const)
                    if lo <= hi and data is not e:
                        given[id(data)] = ix.data(data, lo, hi, text=f"given {number}")
        return ix.interval(to_index(e, given))


def _joined(outer: Facts, implied: Sequence[Fact]) -> Facts:
    """Return facts that all hold."""
    if not implied:
        return outer
    facts = dict[str, Fact]()
    for index, (low, high) in implied:
        key = ix.key(index)
        _, (lo, hi) = facts.get(key) or outer.get(key) or (index, (low, high))
        facts[key] = index, (max(lo, low), min(hi, high))
    for key, fact in outer.items():
        if len(facts) >= MOST_FACTS:
            break
        facts.setdefault(key, fact)
    return facts


def _common(a: Facts, b: Facts) -> Facts:
    """Return facts of which one or the other set holds."""
    return {
        key: (index, (min(low, b[key][1][0]), max(high, b[key][1][1])))
        for key, (index, (low, high)) in a.items()
        if key in b
    }


def _is_contradictory(fact: Fact) -> bool:
    index, (low, high) = fact
    lo, hi = ix.interval(index)
    return max(low, lo) > min(high, hi)


def _clamped(e: Expr, limits: Limits) -> Expr:
    low, high = limits
    e = e if low is None else functions.max(e, low)
    return e if high is None else functions.min(e, high)


def _reads_data(e: Expr) -> bool:
    return any(isinstance(n, Load) for n in walk(e))
