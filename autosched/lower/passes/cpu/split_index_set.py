"""Cut lane loops where clamps and conditions on indices begin and cease to matter (index set splitting).

Blocks at the border of the domain run code with clamps, along the lanes too, where compilers form no vectors. Clamps
matter to a few lanes only. Where an index is affine in the lane, or a floor division of one that is, the range of the
others is known, and they get a loop of their own.

Rewrite:
    for lane < n: S(max(8*y + lane - 2, 0))
    ->  for lane < min(n, lo): S(max(8*y + lane - 2, 0));  for lo <= lane < n: S(8*y + lane - 2)      lo = 2 - 8*y
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from autosched.analysis.indices import index as ix
from autosched.lower.ir import (
    BufferRead,
    CompareIndex,
    ConstValue,
    For,
    If,
    IndexValue,
    Let,
    LetIndex,
    Op,
    Stmt,
    Store,
    Value,
    walk,
)
from autosched.lower.lower_expressions import fold

LEAST_LANES = 8
"""Lanes of a loop that is worth cutting."""

_DIFFERENCE = {"le": (1, 0), "lt": (1, -1), "ge": (-1, 0), "gt": (-1, -1)}
"""``a op b`` holds where ``sign * (b - a) + offset`` is not negative."""


def split_at_clamps(loop: For) -> tuple[For, ...]:
    """Return the loops that replace a lane loop without inner loops: itself, where there is nothing to cut off."""
    if loop.extent < LEAST_LANES or any(isinstance(s, For) for s in walk(loop.body)):
        return (loop,)
    cut = _Cutter(loop.name, frozenset(s.name for s in walk(loop.body) if isinstance(s, Let | LetIndex)))
    body = cut.statements(loop.body)
    if not cut.lows and not cut.highs:
        return (loop,)
    lo: ix.Index = 0
    for low in cut.lows.values():
        lo = ix.maximum(lo, low)
    hi: ix.Index = loop.extent
    for high in cut.highs.values():
        hi = ix.minimum(hi, high)
    before = [replace(loop, upper_bounds=(*loop.upper_bounds, lo))] if cut.lows else []
    between = replace(loop, body=body, lower_bounds=(lo,), upper_bounds=(*loop.upper_bounds, hi))
    after = [replace(loop, lower_bounds=(lo, hi))] if cut.highs else []
    return (*before, between, *after)


@dataclass
class _Cutter:
    """Rewrites a lane loop's body for the lanes from all of ``lows`` on and before all of ``highs``.

    Args:
        lane: The loop's variable.
        inside: Names that its body binds; what depends on them differs from lane to lane in an unknown way.
    """

    lane: str
    inside: frozenset[str]
    lows: dict[str, ix.Index] = field(default_factory=dict)
    highs: dict[str, ix.Index] = field(default_factory=dict)

    def statements(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        return tuple(t for s in body for t in self._statement(s))

    def _statement(self, s: Stmt) -> tuple[Stmt, ...]:
        match s:
            case Let():
                return (Let(s.name, self._value(s.value)),)
            case LetIndex():
                return (LetIndex(s.name, self._index(s.index)),)
            case Store():
                return (replace(s, index=self._index(s.index), value=self._value(s.value)),)
            case If():
                condition = self._value(s.condition)
                if isinstance(condition, ConstValue):
                    return self.statements(s.then if condition.value else s.orelse)
                return (
                    replace(s, condition=condition, then=self.statements(s.then), orelse=self.statements(s.orelse)),
                )
        return (s,)

    def _value(self, v: Value) -> Value:
        match v:
            case IndexValue() | BufferRead():
                return replace(v, index=self._index(v.index))
            case CompareIndex():
                return self._comparison(replace(v, a=self._index(v.a), b=self._index(v.b)))
            case Op():
                return folded(replace(v, args=tuple(self._value(a) for a in v.args)))
        return v

    def _index(self, e: ix.Index) -> ix.Index:
        return ix.rewritten(e, self._chosen)

    def _chosen(self, atom: ix.Atom, args: Sequence[ix.Index]) -> ix.Index | None:
        """Return the argument that a minimum or maximum is in most lanes."""
        if atom.kind not in ("min", "max"):
            return None
        a, b = args
        follows = [self.lane in ix.loop_vars(x) for x in (a, b)]
        first = (
            follows[0] if follows[0] != follows[1] else _mostly(ix.sub(a, b) if atom.kind == "max" else ix.sub(b, a))
        )
        picked, other = (a, b) if first else (b, a)
        margin = ix.sub(picked, other) if atom.kind == "max" else ix.sub(other, picked)
        return picked if self._hold(margin) else None

    def _comparison(self, v: CompareIndex) -> Value:
        if v.op not in _DIFFERENCE:
            return v
        sign, offset = _DIFFERENCE[v.op]
        margin = ix.add(ix.scale(ix.sub(v.b, v.a), sign), offset)
        if isinstance(margin, int):  # both sides were the same clamped index
            return ConstValue(margin >= 0, v.dtype)
        holds = _mostly(margin)
        margin = margin if holds else ix.sub(-1, margin)
        return ConstValue(holds, v.dtype) if self._hold(margin) else v

    def _hold(self, margin: ix.Index) -> bool:
        """Leave the lanes in which a margin is negative out of the range; False if they are no range at its ends."""
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
            return term.kind == "div" and self._hold(ix.sub(term.args[0], ix.scale(least, term.payload)))
        if term.name == self.lane:
            self.lows[ix.key(least)] = least
        return term.name == self.lane

    def _at_most(self, term: ix.Term, most: ix.Index) -> bool:
        if isinstance(term, ix.Atom):
            end = ix.scale(ix.add(most, 1), term.payload) if term.kind == "div" else 0
            return term.kind == "div" and self._hold(ix.sub(ix.sub(end, term.args[0]), 1))
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


def _mostly(margin: ix.Index) -> bool:
    """Whether a number is rather not negative, by the middle of its range."""
    return sum(ix.interval(margin)) >= 0


def folded(v: Op) -> Value:
    """Decide a select or a junction whose condition is known."""
    if v.name == "select" and isinstance(v.args[0], ConstValue):
        return v.args[1] if v.args[0].value else v.args[2]
    return fold(v)
