"""Loop-carried dependences through memory, decided exactly on the accesses as they are printed.

A loop carries a dependence if two of its iterations, in one iteration of the loops around, access the same element and
one of them writes it. C compilers analyse the same, with errors: gcc 12 vectorises

    for y < 7: for x < 15: f[16*y + x + 17] = f[16*y + x] + a[16*y + x + 17]

in y. Two kinds of reuse are no dependence in this sense, because the address is the same in each iteration: reductions
in place, and elements of block-local or thread-local arrays that each iteration writes before it reads them.
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
    CompareIndex,
    For,
    If,
    Let,
    LetIndex,
    Memory,
    Stmt,
    Store,
    Value,
    WarpReduce,
    walk,
)
from autosched.lower.ir_queries import conjuncts, has_loads, names_in_indices, reads_in
from autosched.lower.passes.cpu.index_equation import Equation, Unknown, split_equation

BUDGET = 6000
"""Rows of the solver for each pair of accesses; a pair that needs more counts as a dependence."""


@dataclass(frozen=True, slots=True)
class _Access:
    """An access inside a loop.

    Attributes:
        buffer: The array.
        index: The element.
        around: The loops around it, outermost first, from the analysed loop on.
        conditions: Indices that are nonnegative where the access is executed.
        writes: Whether it is a store.
        atomic: Whether it is an atomic operation; compilers do not reorder these.
    """

    buffer: Buffer
    index: ix.Index
    around: tuple[For, ...]
    conditions: tuple[ix.Index, ...]
    writes: bool
    atomic: bool = False


def carries_dependence(loop: For, bound: Mapping[str, ix.Index]) -> bool:
    """Whether a loop carries a dependence through memory, other than reductions in place and rewritten local arrays.

    Data may have any value in their range. Undecided cases count as a dependence.

    Args:
        loop: The loop, with the loops that are printed inside it.
        bound: Indices that are bound outside of it, by name.
    """
    accesses = _Accesses(loop, bound)
    stores = [a for a in accesses.all if a.writes]
    if any(isinstance(s, WarpReduce) and accesses.moves(s.index) for s in walk(loop.body)):
        return True
    seen = set[tuple[object, ...]]()
    for store in stores:
        for other in accesses.all:
            if store.buffer.name != other.buffer.name or (store.atomic and other.atomic):
                continue
            if accesses.is_reuse(store, other):
                continue
            pair = _identity(store), _identity(other)
            if pair not in seen:
                seen |= {pair, pair[::-1]} if other.writes else {pair}
                if accesses.may_alias(store, other):
                    return True
    return False


def _identity(a: _Access) -> tuple[object, ...]:
    return ix.key(a.index), tuple((f.name, f.extent) for f in a.around), tuple(map(ix.key, a.conditions))


@dataclass
class _Accesses:
    """The accesses of a loop to arrays that are declared outside of it."""

    loop: For
    bound: Mapping[str, ix.Index]
    all: list[_Access] = field(init=False, default_factory=list)
    _changing: set[str] = field(init=False)
    _varying: set[str] = field(init=False)

    def __post_init__(self) -> None:
        inside = tuple(walk(self.loop.body))
        self._changing = {self.loop.name, *(s.name for s in inside if isinstance(s, Let))}
        self._varying = self._changing | {s.name for s in inside if isinstance(s, For)}
        local = {s.buffer.name for s in inside if isinstance(s, Alloc)}
        accesses = self._accesses_in((self.loop,), (), (), dict(self.bound))
        self.all = [a for a in accesses if a.buffer.name not in local]

    def _accesses_in(
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
                    yield from self._accesses_in(s.body, (*around, s), (*conditions, *more), bound)
                case If():
                    tests = _nonnegative_indices(s.condition)
                    more = tuple(c for e in tests for c in _linear(ix.substitute(e, bound)))
                    yield from self._accesses_in(s.then, around, (*conditions, *more), bound)
                    yield from self._accesses_in(s.orelse, around, conditions, bound)

    def moves(self, index: ix.Index) -> bool:
        """Whether an index may differ between iterations of the loop."""
        return bool(names_in_indices([index]) & self._changing) or has_loads(index)

    def is_reuse(self, store: _Access, other: _Access) -> bool:
        """Whether each iteration stores to the same elements: a reduction in place, or a rewritten local array."""
        if self.moves(store.index):
            return False
        if ix.key(store.index) == ix.key(other.index):
            return True
        return store.buffer.memory is not Memory.GLOBAL and not (other.writes and self.moves(other.index))

    def may_alias(self, store: _Access, other: _Access) -> bool:
        """Whether a store and an access of another iteration may access the same element."""
        equations = self._equations(store.index, other.index)
        if equations is None or any(self._holds_once(e) for e in equations):
            return False
        conditions = (*store.conditions, *other.conditions)
        for affine in (True, False):  # conditions that are not affine rarely help, and cost the solver time
            if not affine and all(map(_is_affine, conditions)):
                break
            sides = [[c for c in a.conditions if not affine or _is_affine(c)] for a in (store, other)]
            signs = (1,) if store is other else (1, -1)
            if not any(self._has_solution((store, other), sides, equations, sign) for sign in signs):
                return False
        return True

    def _equations(self, a: ix.Index, b: ix.Index) -> list[Equation] | None:
        """Return equations that hold where indices of two iterations are equal; None if they never are."""
        terms: dict[tuple[int, str], list[Any]] = {}
        for side, sign, e in ((0, 1, a), (1, -1, b)):
            for t, c in ix.terms_of(e):
                fixed = t.name not in self._varying if isinstance(t, ix.LoopVar) else self._is_fixed(t, ())
                term = terms.setdefault((-1 if fixed else side, t.key), [t, 0])
                term[1] += sign * c
        unknowns = [Unknown(c, t, side) for (side, _), (t, c) in terms.items() if c]
        return split_equation(Equation(tuple(unknowns), _constant(a) - _constant(b)))

    def _holds_once(self, e: Equation) -> bool:
        """Whether an equation holds only for two equal iterations of the loop."""
        names = [u.term.name for u in e.unknowns if isinstance(u.term, ix.LoopVar)]
        return e.constant == 0 and names == [self.loop.name] * 2 and sum(u.scale for u in e.unknowns) == 0

    def _has_solution(
        self,
        accesses: tuple[_Access, _Access],
        conditions: Sequence[Sequence[ix.Index]],
        equations: Sequence[Equation],
        sign: int,
    ) -> bool:
        """Whether two accesses may alias, the second in a later (sign 1) or earlier (sign -1) iteration.

        Args:
            accesses: The two accesses.
            conditions: Nonnegative indices of each.
            equations: Equations that hold where both access the same element.
            sign: Order of the two iterations.
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
        return not names_in_indices([index]) & self._varying and not has_loads(index)


def _is_affine(e: ix.Index) -> bool:
    return not any(isinstance(t, ix.Atom) for t, _ in ix.terms_of(e))


def _linear(e: ix.Index) -> list[ix.Index]:
    """Return indices that are nonnegative exactly where ``e`` is, with fewer floors, minima and maxima."""
    for t, c in ix.terms_of(e):
        if not isinstance(t, ix.Atom):
            continue
        rest = ix.sub(e, ix.scale(ix.Affine(((t, 1),), 0), c))
        if t.kind == "div" and c == 1:  # a // d + rest >= 0
            return _linear(ix.add(t.args[0], ix.scale(rest, t.payload)))
        if (t.kind, c > 0) in (("min", True), ("max", False)):
            return [linear for a in t.args for linear in _linear(ix.add(rest, ix.scale(a, c)))]
    return [e]


def _constant(e: ix.Index) -> int:
    return e.const if isinstance(e, ix.Affine) else e


def _nonnegative_indices(condition: Value) -> Iterator[ix.Index]:
    """Yield indices that are nonnegative where a condition holds; tests other than index comparisons are ignored."""
    for test in conjuncts(condition):
        match test:
            case CompareIndex(op="le" | "lt"):
                yield ix.sub(ix.sub(test.b, test.a), int(test.op == "lt"))
            case CompareIndex(op="ge" | "gt"):
                yield ix.sub(ix.sub(test.a, test.b), int(test.op == "gt"))
            case CompareIndex(op="eq"):
                yield ix.sub(test.a, test.b)
                yield ix.sub(test.b, test.a)
