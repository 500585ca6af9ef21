"""Loop-carried dependences of an update, exact where its accesses to its own Func are affine.

Two different iterations conflict when both write one point, or one writes a point that the other reads. A loop is
parallel when conflicting iterations never differ in it: its iterations can run on unsynchronised threads, as long as
each thread executes the remaining loops in order.

The analysis is conservative. A data-dependent index may have any value of its range, a minimum any value below its
operands, and a maximum any value above them. A system beyond the solver's budget counts as a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from autosched.analysis.access.accumulation import accumulation
from autosched.analysis.access.omega import System
from autosched.analysis.expressions.hash_consing import Interner
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.to_index import to_index
from autosched.lang.expr import Expr, Load, RVar, Var, walk
from autosched.lang.func import Definition, Func

Access = tuple[ix.Index, ...]
Linear = tuple[dict[int, int], int]
"""Coefficients by solver variable, and a constant."""


@dataclass(frozen=True, slots=True)
class UpdateDependences:
    """Dependences between the iterations of one update.

    A pure loop (by Var name) is parallel unless the update reads its Func at other points of that dimension, which
    other iterations write.

    Args:
        carried: Loops that carry a dependence.
        parallel: All other loops: iterations that differ in one of them access different points.
        associative: Whether the update is ``f[p] = f[p] op value`` with a commutative and associative operator, so
            that partial results over carried loops can be combined; see `accumulation`.
        owns_point: Whether the update reads its Func only at the point it writes.
        scatter: Whether the store index depends on data, or takes one value at several points of its own loops.
        steps: The shortest prefix of the carried reduction loops within one iteration of which all pure loops and
            another carried loop are parallel, with a barrier after each iteration; empty if there is none.
        parallel_within_step: The loops that are parallel within one iteration of ``steps``.
        unordered: Pure loops with conflicting iterations within one iteration of all reduction loops: their order is
            undefined.
    """

    carried: frozenset[str]
    parallel: frozenset[str]
    associative: bool
    owns_point: bool
    scatter: bool
    steps: tuple[str, ...]
    parallel_within_step: frozenset[str]
    unordered: frozenset[str] = frozenset()


def update_dependences(func: Func, definition: Definition, ranges: Mapping[str, tuple[int, int]]) -> UpdateDependences:
    """Analyse one definition of ``func`` in a bound pipeline.

    Args:
        func: The updated Func.
        definition: One of its definitions, with constant shapes and integer parameters, and unique names of reduction
            variables.
        ranges: Inclusive range of every reduction loop by name, empty where ``hi < lo``. Pure loops without a range
            extend over all integers.
    """
    update = _Update(func, definition, ranges)
    pure = {v.name for v in definition.pure_vars}
    loops = [r.name for r in definition.rvars]
    carried = [name for name in loops if update.conflicts(name)]
    moved = [name for name in update.moved if update.conflicts(name)]
    unordered = frozenset(name for name in moved if update.conflicts(name, loops))
    steps, gained = _steps(update, carried, [name for name in moved if name not in unordered])
    parallel = frozenset((pure | set(loops)) - {*carried, *moved})
    return UpdateDependences(
        carried=frozenset((*carried, *moved)),
        parallel=parallel,
        associative=accumulation(func, definition) is not None,
        owns_point=update.owns_point(),
        scatter=update.scatters(),
        steps=steps,
        parallel_within_step=parallel | gained,
        unordered=unordered,
    )


def _steps(
    update: _Update, carried: Sequence[str], moved: Sequence[str]
) -> tuple[tuple[str, ...], frozenset[str]]:  # fmt: skip
    """Return the shortest prefix of the carried loops that makes further loops parallel, and these loops.

    All of ``moved`` must be parallel. Only a prefix can move outwards: it determines the order of conflicting
    iterations that differ in it.
    """
    for count in range(1, len(carried) + bool(moved)):
        prefix = carried[:count]
        gained = frozenset(name for name in (*carried[count:], *moved) if not update.conflicts(name, prefix))
        if gained and gained.issuperset(moved):
            return tuple(prefix), gained
    return (), frozenset()


class _Update:
    """The accesses of an update to its own Func, as symbolic indices."""

    def __init__(self, func: Func, definition: Definition, ranges: Mapping[str, tuple[int, int]]) -> None:
        self.func = func
        self.pure = tuple(v.name for v in definition.pure_vars)
        self.loops = tuple(r.name for r in definition.rvars)
        self.ranges = dict(ranges)
        self._is_fixed = partial(_is_fixed_by, func=func)
        self.is_empty = any(hi < lo for lo, hi in (ranges[name] for name in self.loops))
        interner, memo = Interner(), dict[int, ix.Index]()
        self._keep = interner  # indices refer to parts of the expressions by id
        self.store: Access = tuple(to_index(interner(i), memo) for i in definition.indices)
        loads = _self_reads(func, (*definition.indices, *definition.values))
        reads = (tuple(to_index(interner(i), memo) for i in load.indices) for load in loads)
        self.reads: tuple[Access, ...] = tuple({tuple(map(ix.key, read)): read for read in reads}.values())
        axes = {v.name: k for k, v in enumerate(definition.indices) if isinstance(v, Var)}
        self.moved = tuple(n for n, k in axes.items() if any(ix.key(read[k]) != f"({n})" for read in self.reads))
        """Pure loops in whose dimension a self-read differs from the written point."""
        self.common = tuple(name for name in self.pure if name not in self.moved)

    def conflicts(self, loop: str, equal: Sequence[str] = ()) -> bool:
        """Whether two iterations that differ in ``loop``, but in none of ``equal``, may conflict."""
        if self.is_empty:
            return False
        return self._may_alias(self.store, loop, equal, 1) or any(
            self._may_alias(read, loop, equal, sign) for read in self.reads for sign in (1, -1)
        )

    def owns_point(self) -> bool:
        """Whether every self-read is at the point that the same iteration writes."""
        return self.is_empty or not any(self._may_differ(read, sign) for read in self.reads for sign in (1, -1))

    def scatters(self) -> bool:
        """Whether the store index depends on data or is not injective in its reduction loops."""
        terms = [t for i in self.store for t in ix.atoms(i)]
        if any(isinstance(t, ix.Atom) and t.kind in ("data", "select") for t in terms):
            return True
        mentioned = {t.name for t in terms if isinstance(t, ix.LoopVar)} - set(self.pure)
        return not self.is_empty and any(self._may_alias(self.store, name, (), 1) for name in mentioned)

    def _may_differ(self, read: Access, sign: int) -> bool:
        """Whether in some iteration an index of ``read`` is above (sign 1) or below that of the store."""
        for a, b in zip(read, self.store, strict=True):
            system = System()
            iteration = Iteration(system, self._is_fixed)
            iteration.add_loops((*self.pure, *self.loops), self.ranges)
            terms, constant = iteration.linear(ix.sub(a, b))
            system.require_not_negative(combined({}, terms, sign), sign * constant - 1)
            if system.is_feasible() is not False:
                return True
        return False

    def _may_alias(self, other: Access, loop: str, equal: Sequence[str], sign: int) -> bool:
        """Whether a store and ``other`` of an iteration later (sign 1) or earlier in ``loop`` may access one point."""
        system = System()
        common = Iteration(system, self._is_fixed)
        common.add_loops((*self.common, *equal), self.ranges)
        first, second = (Iteration(system, self._is_fixed, common) for _ in range(2))
        for iteration in (first, second):
            iteration.add_loops([name for name in (*self.loops, *self.moved) if name not in equal], self.ranges)
        later, earlier = second.variables[loop], first.variables[loop]
        system.require_not_negative({later: sign, earlier: -sign}, -1)
        for a, b in zip(self.store, other, strict=True):
            terms, constant = first.linear(a)
            minus, subtrahend = second.linear(b)
            system.require_zero(combined(terms, minus, -1), constant - subtrahend)
        return system.is_feasible() is not False


class Iteration:
    """One iteration of some loops: loop variables and non-affine atoms as variables of a solver's system.

    Args:
        system: The system.
        is_fixed: Whether an atom is constant for constant values of the named loops; required with ``common``.
        common: The loops in which the iteration agrees with another one, and the atoms that depend on these alone.
    """

    def __init__(
        self,
        system: System,
        is_fixed: Callable[[ix.Atom, Collection[str]], bool] | None = None,
        common: Iteration | None = None,
    ) -> None:
        self._system = system
        self._is_fixed = is_fixed
        self._common = common
        self.variables: dict[str, int] = {} if common is None else dict(common.variables)
        self._atoms: dict[str, int] = {}

    def add_loops(self, names: Iterable[str], ranges: Mapping[str, tuple[int, int]]) -> None:
        """Add variables for loops; those without a range are unbounded."""
        for name in names:
            lo, hi = ranges.get(name, (None, None))
            self.variables[name] = self._system.variable(lo, hi)

    def linear(self, index: ix.Index) -> Linear:
        """Return an index over variables; floors and remainders are exact, other atoms bounded."""
        if not isinstance(index, ix.Affine):
            return {}, index
        for atom in ix.postorder(index):  # innermost first, which avoids recursion
            self._atom(atom)
        total: dict[int, int] = {}
        for term, c in index.terms:
            v = self.variables[term.name] if isinstance(term, ix.LoopVar) else self._atom(term)
            total[v] = total.get(v, 0) + c
        return total, index.const

    def _atom(self, atom: ix.Atom) -> int:
        if self._common is not None and self._is_fixed is not None and self._is_fixed(atom, self._common.variables):
            return self._common._atom(atom)
        variable = self._atoms.get(atom.key)
        if variable is None:
            variable = self._atoms[atom.key] = self._new_atom(atom)
        return variable

    def _new_atom(self, atom: ix.Atom) -> int:
        system = self._system
        if atom.kind == "div":  # 0 <= a - divisor * v < divisor
            v, (terms, constant) = system.variable(), self.linear(atom.args[0])
            remainder = combined(terms, {v: 1}, -atom.payload)
            system.require_not_negative(remainder, constant)
            system.require_not_negative(combined({}, remainder, -1), atom.payload - 1 - constant)
            return v
        lo, hi = atom.interval
        v = system.variable(lo if lo > -ix.UNBOUNDED else None, hi if hi < ix.UNBOUNDED else None)
        if atom.kind == "mod":  # a - v is a multiple of the divisor
            terms, constant = self.linear(atom.args[0])
            multiple = {**combined(terms, {v: 1}, -1), system.variable(): -atom.payload}
            system.require_zero(multiple, constant)
        elif atom.kind in ("min", "max"):
            sign = 1 if atom.kind == "min" else -1
            for argument in atom.args:
                terms, constant = self.linear(argument)
                system.require_not_negative(combined({}, combined(terms, {v: 1}, -1), sign), sign * constant)
        return v


def _is_fixed_by(atom: ix.Atom, loops: Collection[str], func: Func | None) -> bool:
    """Whether an atom is constant for constant loops: it depends on no other loops and not on ``func``."""
    for term in (atom, *(t for a in atom.args for t in ix.atoms(a))):
        if isinstance(term, ix.LoopVar):
            if term.name not in loops:
                return False
        elif isinstance(term.payload, Expr):
            for node in walk(term.payload):
                if isinstance(node, Var | RVar) and node.name not in loops:
                    return False
                if isinstance(node, Load) and node.source is func:
                    return False
    return True


def combined(a: Mapping[int, int], b: Mapping[int, int], factor: int) -> dict[int, int]:
    """Return ``a + factor * b``."""
    return {v: a.get(v, 0) + factor * b.get(v, 0) for v in (*a, *(v for v in b if v not in a))}


def _self_reads(func: Func, roots: Iterable[Expr]) -> list[Load]:
    return [n for root in roots for n in walk(root) if isinstance(n, Load) and n.source is func]
