"""Which loops of an update carry a dependence, exact where the update's accesses to its own Func are affine.

Two different iterations conflict when both write one point, or one writes a point that the other reads. A loop is
parallel when conflicting iterations never differ in it: its iterations may then be spread over threads that do not
wait for each other, whatever order keeps the remaining loops in sequence inside each thread.

An index that depends on data may be anything in its range, a minimum or maximum anything below or above its operands,
and a system of indices too hard for the solver's budget counts as a conflict: the analysis errs towards carried.
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
    """How the loops of one update depend on each other.

    A pure loop (by Var name) is parallel unless the update reads its Func at other points of that dimension, which
    other iterations write.

    Args:
        carried: Loops that carry a dependence.
        parallel: All other loops: no two iterations that differ in one of them touch the same point.
        associative: Whether the update is ``f[p] = f[p] op value`` with a commutative and associative operator, so
            that partial results over carried loops can be combined; see `accumulation`.
        owns_point: Whether the update reads its Func only at the point it writes.
        scatter: Whether the store index depends on data, or takes one value at several points of its own loops.
        steps: The fewest leading carried reduction loops which, walked by all threads together with a barrier after
            each step, leave all pure loops and another carried loop parallel within a step; empty where there are none.
        parallel_within_step: The loops that are parallel within a step: those of ``parallel`` and the ones gained.
        unordered: Pure loops of which two iterations conflict within one iteration of all reduction loops, so that no
            order of theirs is defined.
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
        func: The Func that is updated.
        definition: One of its definitions, shapes and integer parameters replaced by constants, and its reduction
            variables named differently.
        ranges: Inclusive range of every reduction loop by name (empty where ``hi < lo``). Pure loops may be given
            too; without a range they are taken over all integers.
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
    """Return the shortest prefix of the carried loops that frees others, all ``moved`` pure ones among them, and those.

    Only a prefix may be moved outwards: it decides the order of any two conflicting iterations that differ in it.
    """
    for count in range(1, len(carried) + bool(moved)):
        together = carried[:count]
        gained = frozenset(name for name in (*carried[count:], *moved) if not update.conflicts(name, together))
        if gained and gained.issuperset(moved):
            return tuple(together), gained
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
        self._keep = interner  # the indices know parts of the expressions by their ids
        self.store: Access = tuple(to_index(interner(i), memo) for i in definition.indices)
        loads = _self_reads(func, (*definition.indices, *definition.values))
        reads = (tuple(to_index(interner(i), memo) for i in load.indices) for load in loads)
        self.reads: tuple[Access, ...] = tuple({tuple(map(ix.key, read)): read for read in reads}.values())
        axes = {v.name: k for k, v in enumerate(definition.indices) if isinstance(v, Var)}
        self.moved = tuple(n for n, k in axes.items() if any(ix.key(read[k]) != f"({n})" for read in self.reads))
        """Pure loops in whose dimension some self-read is not at the point written."""
        self.common = tuple(name for name in self.pure if name not in self.moved)

    def conflicts(self, loop: str, together: Sequence[str] = ()) -> bool:
        """Whether two iterations that differ in ``loop``, but in none of ``together``, may conflict."""
        if self.is_empty:
            return False
        return self._meets(self.store, loop, together, 1) or any(
            self._meets(read, loop, together, sign) for read in self.reads for sign in (1, -1)
        )

    def owns_point(self) -> bool:
        """Whether every self-read is at the point written by the same iteration."""
        return self.is_empty or not any(self._may_differ(read, sign) for read in self.reads for sign in (1, -1))

    def scatters(self) -> bool:
        """Whether the store index depends on data or is not injective in the reduction loops it mentions."""
        terms = [t for i in self.store for t in ix.atoms(i)]
        if any(isinstance(t, ix.Atom) and t.kind in ("data", "select") for t in terms):
            return True
        mentioned = {t.name for t in terms if isinstance(t, ix.LoopVar)} - set(self.pure)
        return not self.is_empty and any(self._meets(self.store, name, (), 1) for name in mentioned)

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

    def _meets(self, other: Access, loop: str, together: Sequence[str], sign: int) -> bool:
        """Whether the store of an iteration and ``other`` of one later (sign 1) or earlier in ``loop`` may meet."""
        system = System()
        common = Iteration(system, self._is_fixed)
        common.add_loops((*self.common, *together), self.ranges)
        first, second = (Iteration(system, self._is_fixed, common) for _ in range(2))
        for iteration in (first, second):
            iteration.add_loops([name for name in (*self.loops, *self.moved) if name not in together], self.ranges)
        later, earlier = second.variables[loop], first.variables[loop]
        system.require_not_negative({later: sign, earlier: -sign}, -1)
        for a, b in zip(self.store, other, strict=True):
            terms, constant = first.linear(a)
            minus, subtrahend = second.linear(b)
            system.require_zero(combined(terms, minus, -1), constant - subtrahend)
        return system.is_feasible() is not False


class Iteration:
    """One iteration of some loops: these, and the values that indices take, as variables of a solver's system.

    Args:
        system: Where the variables are.
        is_fixed: Whether an atom has one value while loops of the given names stand still; asked beside ``common``.
        common: Has the loops in which the iteration agrees with another one, and what depends on those alone.
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
        """Return an index over variables; floors and remainders exactly, other atoms by what bounds them."""
        if not isinstance(index, ix.Affine):
            return {}, index
        for atom in ix.postorder(index):  # so that nested ones are known, however deep
            self._atom(atom)
        total: dict[int, int] = {}
        for term, c in index.terms:
            v = self.variables[term.name] if isinstance(term, ix.LoopVar) else self._atom(term)
            total[v] = total.get(v, 0) + c
        return total, index.const

    def _atom(self, atom: ix.Atom) -> int:
        if self._common is not None and self._is_fixed is not None and self._is_fixed(atom, self._common.variables):
            return self._common._atom(atom)
        known = self._atoms.get(atom.key)
        if known is None:
            known = self._atoms[atom.key] = self._new_atom(atom)
        return known

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
    """Whether an atom has one value while the given loops stand still: it reads neither other loops nor ``func``."""
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
