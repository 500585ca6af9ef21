"""Which loops of a kernel carry a dependence through memory, decided on the accesses as they are printed.

A loop carries a dependence if two of its iterations touch one element and one of them writes it, while the loops around
stand still. C compilers decide that, too, and not always rightly: gcc 12 takes vectors over

    for y < 7: for x < 15: f[16*y + x + 17] = f[16*y + x] + a[16*y + x + 17]

in y. Two kinds of reuse leave nothing to decide, as the address is the same in each iteration: sums in place, which are
written where they are read, and elements of a block's or thread's own arrays, which each iteration fills anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autosched.analysis.access.dependence import Iteration, combined
from autosched.analysis.access.omega import System
from autosched.analysis.indices import index as ix
from autosched.lower.ir import (
    Alloc,
    Buffer,
    BufferRead,
    CompareIndex,
    For,
    If,
    Let,
    LetIndex,
    Memory,
    Op,
    Stmt,
    Store,
    Value,
    WarpReduce,
    walk,
    walk_values,
)
from autosched.lower.passes.cpu.distribute_lane_loop import names_in_indices, reads_in
from autosched.lower.passes.cpu.index_equation import Equation, Unknown, split_equation

BUDGET = 6000
"""Rows of the solver for each pair of accesses; a pair that needs more is taken for a dependence."""


@dataclass(frozen=True, slots=True)
class _Access:
    """An access inside a loop.

    Attributes:
        buffer: The array.
        index: The element.
        around: The loops around it, the one that is looked at first.
        conditions: Indices that are not negative where the access happens.
        writes: Whether it is a store.
        atomic: Whether it is an atomic operation, of which compilers leave the order alone.
    """

    buffer: Buffer
    index: ix.Index
    around: tuple[For, ...]
    conditions: tuple[ix.Index, ...]
    writes: bool
    atomic: bool = False


def carries_dependence(loop: For, bound: Mapping[str, ix.Index]) -> bool:
    """Return whether a loop carries a dependence through memory, other than by sums in place and arrays filled anew.

    Data may be anything in their range, and what the solver cannot decide counts as a dependence.

    Args:
        loop: The loop, with the loops that are printed inside it.
        bound: Indices that are bound outside of it, by name.
    """
    found = _Accesses(loop, bound)
    stores = [a for a in found.all if a.writes]
    if any(isinstance(s, WarpReduce) and found.moves(s.index) for s in walk(loop.body)):
        return True
    seen = set[tuple[object, ...]]()
    for store in stores:
        for other in found.all:
            if store.buffer.name != other.buffer.name or (store.atomic and other.atomic):
                continue
            if found.is_reuse(store, other):
                continue
            pair = _identity(store), _identity(other)
            if pair not in seen:
                seen |= {pair, pair[::-1]} if other.writes else {pair}
                if found.may_meet(store, other):
                    return True
    return False


def _identity(a: _Access) -> tuple[object, ...]:
    return ix.key(a.index), tuple((f.name, f.extent) for f in a.around), tuple(map(ix.key, a.conditions))


@dataclass
class _Accesses:
    """What a loop accesses in arrays that are not declared inside it."""

    loop: For
    bound: Mapping[str, ix.Index]
    all: list[_Access] = field(init=False, default_factory=list)
    _changing: set[str] = field(init=False)
    _varying: set[str] = field(init=False)

    def __post_init__(self) -> None:
        inside = tuple(walk(self.loop.body))
        self._changing = {self.loop.name, *(s.name for s in inside if isinstance(s, Let))}
        self._varying = self._changing | {s.name for s in inside if isinstance(s, For)}
        own = {s.buffer.name for s in inside if isinstance(s, Alloc)}
        found = self._of((self.loop,), (), (), dict(self.bound))
        self.all = [a for a in found if a.buffer.name not in own]

    def _of(
        self,
        body: Sequence[Stmt],
        around: tuple[For, ...],
        conditions: tuple[ix.Index, ...],
        bound: dict[str, ix.Index],
    ) -> Iterator[_Access]:
        for s in body:
            for r in reads_in((s,)):
                yield _Access(r.buffer, ix.substitute(r.index, bound), around, conditions, False)
            match s:
                case LetIndex():
                    bound[s.name] = ix.substitute(s.index, bound)
                case Store():
                    yield _Access(s.buffer, ix.substitute(s.index, bound), around, conditions, True, bool(s.combine))
                case For():
                    limits = [ix.sub(ix.sub(e, 1), ix.var(s.name, 0, s.extent - 1)) for e in s.upper_bounds]
                    starts = [ix.sub(ix.var(s.name, 0, s.extent - 1), e) for e in s.lower_bounds]
                    more = tuple(c for e in (*limits, *starts) for c in _linear(ix.substitute(e, bound)))
                    yield from self._of(s.body, (*around, s), (*conditions, *more), bound)
                case If():
                    tests = _not_negative(s.condition)
                    more = tuple(c for e in tests for c in _linear(ix.substitute(e, bound)))
                    yield from self._of(s.then, around, (*conditions, *more), bound)
                    yield from self._of(s.orelse, around, conditions, bound)

    def moves(self, index: ix.Index) -> bool:
        """Whether an index may differ between iterations of the loop."""
        return bool(names_in_indices([index]) & self._changing) or _loads(index)

    def is_reuse(self, store: _Access, other: _Access) -> bool:
        """Whether each iteration stores to the same elements, sums in place or in an array that is filled anew."""
        if self.moves(store.index):
            return False
        if ix.key(store.index) == ix.key(other.index):
            return True
        return store.buffer.memory is not Memory.GLOBAL and not (other.writes and self.moves(other.index))

    def may_meet(self, store: _Access, other: _Access) -> bool:
        """Whether a store and an access of another iteration may touch one element."""
        equations = self._equations(store.index, other.index)
        if equations is None or any(self._holds_once(e) for e in equations):
            return False
        conditions = (*store.conditions, *other.conditions)
        for affine in (True, False):  # conditions that are not affine mostly only add to the solver's work
            if not affine and all(map(_is_affine, conditions)):
                break
            sides = [[c for c in a.conditions if not affine or _is_affine(c)] for a in (store, other)]
            signs = (1,) if store is other else (1, -1)
            if not any(self._meet((store, other), sides, equations, sign) for sign in signs):
                return False
        return True

    def _equations(self, a: ix.Index, b: ix.Index) -> list[Equation] | None:
        """Return equations that hold where the index of one iteration is that of another; None if it never is."""
        terms: dict[tuple[int, str], list[Any]] = {}
        for side, sign, e in ((0, 1, a), (1, -1, b)):
            for t, c in ix.terms_of(e):
                fixed = t.name not in self._varying if isinstance(t, ix.LoopVar) else self._is_fixed(t, ())
                found = terms.setdefault((-1 if fixed else side, t.key), [t, 0])
                found[1] += sign * c
        unknowns = [Unknown(c, t, side) for (side, _), (t, c) in terms.items() if c]
        return split_equation(Equation(tuple(unknowns), _constant(a) - _constant(b)))

    def _holds_once(self, e: Equation) -> bool:
        """Whether an equation says that the iterations of the loop are the same."""
        names = [u.term.name for u in e.unknowns if isinstance(u.term, ix.LoopVar)]
        return e.constant == 0 and names == [self.loop.name] * 2 and sum(u.scale for u in e.unknowns) == 0

    def _meet(
        self,
        accesses: tuple[_Access, _Access],
        conditions: Sequence[Sequence[ix.Index]],
        equations: Sequence[Equation],
        sign: int,
    ) -> bool:
        """Whether an access may touch what one of a later (sign 1) or earlier iteration does.

        Args:
            accesses: The two.
            conditions: Of each, indices that are not negative.
            equations: What holds where both touch one element.
            sign: Which iterations are compared.
        """
        system = System()
        unknown = [ix.Affine(((u.term, 1),), 0) for e in equations for u in e.unknowns]
        indices = (*unknown, *conditions[0], *conditions[1])
        outside = {v.name: v.interval for e in indices for v in ix.loop_vars(e).values() if v.name not in self._varying}
        common = Iteration(system, self._is_fixed)
        common.add_loops(outside, outside)
        sides = tuple(Iteration(system, self._is_fixed, common) for _ in range(2))
        for iteration, access, holding in zip(sides, accesses, conditions, strict=True):
            iteration.add_loops([f.name for f in access.around], {f.name: (0, f.extent - 1) for f in access.around})
            for condition in holding:
                system.require_not_negative(*iteration.linear(condition))
        first, second = (iteration.variables[self.loop.name] for iteration in sides)
        system.require_not_negative({second: sign, first: -sign}, -1)
        for e in equations:
            terms: dict[int, int] = {}
            constant = e.constant
            for u in e.unknowns:
                more, offset = sides[max(u.side, 0)].linear(ix.Affine(((u.term, u.scale),), 0))
                terms, constant = combined(terms, more, 1), constant + offset
            system.require_zero(terms, constant)
        return system.is_feasible(BUDGET) is not False

    def _is_fixed(self, atom: ix.Atom, _names: Collection[str]) -> bool:
        index = ix.Affine(((atom, 1),), 0)
        return not names_in_indices([index]) & self._varying and not _loads(index)


def _is_affine(e: ix.Index) -> bool:
    return not any(isinstance(t, ix.Atom) for t, _ in ix.terms_of(e))


def _linear(e: ix.Index) -> list[ix.Index]:
    """Return indices that are not negative exactly where ``e`` is not, with fewer floors, minima and maxima."""
    for t, c in ix.terms_of(e):
        if not isinstance(t, ix.Atom):
            continue
        rest = ix.sub(e, ix.scale(ix.Affine(((t, 1),), 0), c))
        if t.kind == "div" and c == 1:  # a // d + rest >= 0
            return _linear(ix.add(t.args[0], ix.scale(rest, t.payload)))
        if (t.kind, c > 0) in (("min", True), ("max", False)):
            return [found for a in t.args for found in _linear(ix.add(rest, ix.scale(a, c)))]
    return [e]


def _constant(e: ix.Index) -> int:
    return e.const if isinstance(e, ix.Affine) else e


def _loads(index: ix.Index) -> bool:
    """Whether an index has a load in it, of what may have changed between two iterations."""
    payloads = (t.payload for t in ix.atoms(index) if isinstance(t, ix.Atom) and t.kind in ("data", "select"))
    return any(isinstance(v, BufferRead) for p in payloads if p is not None for v in walk_values(p))


def _not_negative(condition: Value) -> Iterator[ix.Index]:
    """Yield indices that are not negative where a condition holds; of what is no comparison of indices, none."""
    match condition:
        case Op(name="and"):
            for a in condition.args:
                yield from _not_negative(a)
        case CompareIndex(op="le" | "lt"):
            yield ix.sub(ix.sub(condition.b, condition.a), int(condition.op == "lt"))
        case CompareIndex(op="ge" | "gt"):
            yield ix.sub(ix.sub(condition.a, condition.b), int(condition.op == "gt"))
        case CompareIndex(op="eq"):
            yield ix.sub(condition.a, condition.b)
            yield ix.sub(condition.b, condition.a)
