"""Split lane loops where the outcome of clamps and conditions on indices changes (index set splitting).

Boundary blocks run code with clamps, also along the lanes, which compilers do not vectorise. Clamps affect few lanes
only. The unaffected lanes get a loop without clamps if the index is affine in the lane, or a floor division of an
affine index: their range can then be computed.

Rewrite:
    for lane < n: S(max(8*y + lane - 2, 0))
    ->  for lane < min(n, lo): S(max(8*y + lane - 2, 0));  for lo <= lane < n: S(8*y + lane - 2)      lo = 2 - 8*y
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from autosched.analysis.indices import index as ix
from autosched.lower.ir import (
    CompareIndex,
    ConstValue,
    For,
    If,
    Let,
    LetIndex,
    Op,
    Stmt,
    Value,
    walk,
)
from autosched.lower.ir_visitor import map_parts
from autosched.lower.lower_expressions import fold

LEAST_LANES = 8
"""Lanes of the smallest loop that is split."""

_DIFFERENCE = {"le": (1, 0), "lt": (1, -1), "ge": (-1, 0), "gt": (-1, -1)}
"""``a op b`` holds where ``sign * (b - a) + offset`` is not negative."""


def split_at_clamps(loop: For) -> tuple[For, ...]:
    """Return the loops that replace a lane loop; the loop itself if it has inner loops, few lanes or no clamps."""
    if loop.extent < LEAST_LANES or any(isinstance(s, For) for s in walk(loop.body)):
        return (loop,)
    inside, lows, highs = unclamped(loop)
    if not lows and not highs:
        return (loop,)
    lo: ix.Index = reduce(ix.maximum, lows, 0)
    hi: ix.Index = reduce(ix.minimum, highs, loop.extent)
    before = [replace(loop, upper_bounds=(*loop.upper_bounds, lo))] if lows else []
    between = replace(inside, lower_bounds=(lo,), upper_bounds=(*loop.upper_bounds, hi))
    after = [replace(loop, lower_bounds=(lo, hi))] if highs else []
    return (*before, between, *after)


def unclamped(loop: For) -> tuple[For, Sequence[ix.Index], Sequence[ix.Index]]:
    """Return a loop without clamps and conditions on its variable, and the bounds within which these are constant.

    Returns:
        The loop, the first values of the variable, and the exclusive ends; all of them apply.
    """
    bound = (s.name for s in walk(loop.body) if isinstance(s, Let | LetIndex | For))
    splitter = _Splitter(loop.name, frozenset(bound))
    inside = replace(loop, body=splitter.statements(loop.body))
    return inside, list(splitter.lows.values()), list(splitter.highs.values())


@dataclass
class _Splitter:
    """Rewrites a lane loop's body for the lanes at or above all ``lows`` and below all ``highs``.

    Attributes:
        lane: The loop's variable.
        inside: Names that its body binds; they differ between lanes in an unknown way.
        lows: Lower bounds of the range by key.
        highs: Upper bounds of the range, exclusive, by key.
    """

    lane: str
    inside: frozenset[str]
    lows: dict[str, ix.Index] = field(default_factory=dict)
    highs: dict[str, ix.Index] = field(default_factory=dict)

    def statements(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        return tuple(t for s in body for t in self._statement(s))

    def _statement(self, s: Stmt) -> tuple[Stmt, ...]:
        s = map_parts(s, values=self._value, indices=self._index)
        if isinstance(s, If) and isinstance(s.condition, ConstValue):
            return self.statements(s.then if s.condition.value else s.orelse)
        return (map_parts(s, bodies=self.statements),)

    def _value(self, v: Value) -> Value:
        v = map_parts(v, values=self._value, indices=self._index)
        if isinstance(v, CompareIndex):
            return self._comparison(v)
        return folded(v) if isinstance(v, Op) else v

    def _index(self, e: ix.Index) -> ix.Index:
        return ix.rewritten(e, self._chosen)

    def _chosen(self, atom: ix.Atom, args: Sequence[ix.Index]) -> ix.Index | None:
        """Return the argument that equals a minimum or maximum in most lanes; None if the lanes are no range."""
        if atom.kind not in ("min", "max"):
            return None
        a, b = args
        varies = [self.lane in ix.loop_vars(x) for x in (a, b)]
        if varies[0] != varies[1]:
            is_first = varies[0]
        else:
            is_first = _is_mostly_nonnegative(ix.sub(a, b) if atom.kind == "max" else ix.sub(b, a))
        chosen, other = (a, b) if is_first else (b, a)
        margin = ix.sub(chosen, other) if atom.kind == "max" else ix.sub(other, chosen)
        return chosen if self._restrict(margin) else None

    def _comparison(self, v: CompareIndex) -> Value:
        if v.op not in _DIFFERENCE:
            return v
        sign, offset = _DIFFERENCE[v.op]
        margin = ix.add(ix.scale(ix.sub(v.b, v.a), sign), offset)
        if isinstance(margin, int):  # both sides were the same clamped index
            return ConstValue(margin >= 0, v.dtype)
        holds = _is_mostly_nonnegative(margin)
        margin = margin if holds else ix.sub(-1, margin)
        return ConstValue(holds, v.dtype) if self._restrict(margin) else v

    def _restrict(self, margin: ix.Index) -> bool:
        """Restrict the range to lanes with a nonnegative margin; return False if the others are not at its ends."""
        moving = [(t, c) for t, c in ix.terms_of(margin) if self._moves(t)]
        if len(moving) != 1:
            return False
        term, scale = moving[0]
        rest = ix.sub(margin, ix.scale(ix.Affine(((term, 1),), 0), scale))
        # scale * term + rest >= 0
        if scale > 0:
            least = ix.scale(ix.floordiv(rest, scale), -1)
            return self._at_least(term, least)
        return self._at_most(term, ix.floordiv(rest, -scale))

    def _at_least(self, term: ix.Term, least: ix.Index) -> bool:
        if isinstance(term, ix.Atom):
            return term.kind == "div" and self._restrict(ix.sub(term.args[0], ix.scale(least, term.payload)))
        if term.name == self.lane:
            self.lows[ix.key(least)] = least
        return term.name == self.lane

    def _at_most(self, term: ix.Term, most: ix.Index) -> bool:
        if isinstance(term, ix.Atom):
            end = ix.scale(ix.add(most, 1), term.payload) if term.kind == "div" else 0
            return term.kind == "div" and self._restrict(ix.sub(ix.sub(end, term.args[0]), 1))
        if term.name == self.lane:
            self.highs[ix.key(most)] = ix.add(most, 1)
        return term.name == self.lane

    def _moves(self, t: ix.Term) -> bool:
        """Whether a term may differ between lanes."""
        if isinstance(t, ix.LoopVar):
            return t.name == self.lane or t.name in self.inside
        inner = {a.name: a for a in ix.atoms(ix.Affine(((t, 1),), 0)) if isinstance(a, ix.LoopVar)}
        return self.lane in inner or bool(self.inside & inner.keys()) or _reads_data(t)


def _reads_data(t: ix.Atom) -> bool:
    return any(isinstance(a, ix.Atom) and a.kind in ("data", "select") for a in ix.atoms(ix.Affine(((t, 1),), 0)))


def _is_mostly_nonnegative(margin: ix.Index) -> bool:
    """Whether the middle of an index's range is not negative."""
    return sum(ix.interval(margin)) >= 0


def folded(v: Op) -> Value:
    """Fold a select with a constant condition, or an ``and`` or ``or`` with a constant operand."""
    if v.name == "select" and isinstance(v.args[0], ConstValue):
        return v.args[1] if v.args[0].value else v.args[2]
    return fold(v)
