"""Proofs about symbolic indices, at a cost that does not depend on the ranges of loop variables.

The proof that an index is never negative refutes the existence of a point where it is. A minimum or maximum is replaced
by its arguments. If the index increases with a minimum, one of the arguments makes it negative; if it decreases, both
do, and conversely for a maximum. If it does both, the sign of the difference selects the argument. The remaining sums
of loop variables and floors are decided exactly by the Omega test.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autosched.analysis.access.affine import form_of_index
from autosched.analysis.access.omega import System
from autosched.analysis.indices import index as ix

MOST_CASES = 128
"""Limit of the combinations of arguments of minima and maxima; tiles of pyramids need a few dozen."""
SOLVER_BUDGET = 6_000
"""Budget of the Omega test for one combination."""


def is_never_negative(e: ix.Index) -> bool:
    """Return whether an index is proven to be at least 0 for all values of its loop variables.

    Exact within the limits for sums, floors, remainders, minima and maxima; products, selects and data have any value
    of their interval.
    """
    if ix.interval(e)[0] >= 0:
        return True
    cases = [_Case((ix.rewritten(e, _without_remainder),))]
    for _ in range(MOST_CASES):
        if not cases:
            return True
        case = cases.pop()
        if not case.unresolved:
            if _may_all_be_negative(case.resolved):
                return False
            continue
        e, *others = case.unresolved
        choice = _choice(e)
        if choice is None:
            if not _is_bounded(e):
                cases.append(_Case(tuple(others), (*case.resolved, e)))
            continue
        for given in _alternatives(e, *choice):
            if all(ix.interval(i)[0] < 0 for i in given):
                cases.append(_Case((*given, *others), case.resolved))
    return False


@dataclass(frozen=True, slots=True)
class _Case:
    """Indices assumed negative at a common point; the ``resolved`` ones have no minima and maxima."""

    unresolved: tuple[ix.Index, ...]
    resolved: tuple[ix.Index, ...] = ()


def _without_remainder(atom: ix.Atom, args: Sequence[ix.Index]) -> ix.Index | None:
    """Return a remainder in terms of a floor; None for other atoms."""
    if atom.kind != "mod":
        return None
    remainder: ix.Index = ix.sub(args[0], ix.scale(ix.floordiv(args[0], atom.payload), atom.payload))
    return remainder


def _is_bounded(e: ix.Index) -> bool:
    """Return whether an index is never negative for the worst error of its floors."""
    form = form_of_index(e)
    if form is None:
        return False
    variables = ix.loop_vars(e)
    least = form.constant + form.error[0]
    for name, c in form.coefficients.items():
        least += c * (variables[name].lo if c > 0 else variables[name].hi)
    return math.ceil(least) >= 0


def _choice(e: ix.Index) -> tuple[ix.Atom, set[int]] | None:
    """Return an outermost minimum or maximum, and the signs of the index's dependence on it."""
    signs: dict[str, set[int]] = {}
    first: ix.Atom | None = None
    for atom, sign in _occurrences(e):
        if atom.kind in ("min", "max"):
            first = first or atom
            signs.setdefault(atom.key, set()).add(sign)
    return None if first is None else (first, signs[first.key])


def _alternatives(e: ix.Index, atom: ix.Atom, signs: set[int]) -> list[list[ix.Index]]:
    """Return lists of indices with one atom less: where ``e`` is negative, so are all indices of some list.

    Args:
        e: The index.
        atom: A minimum or maximum in it.
        signs: Signs of the index's dependence on the atom.
    """
    arms = [_with_argument(e, atom, k) for k in range(2)]
    grows = 1 if atom.kind == "max" else -1
    if signs == {grows}:
        return [arms]
    if signs == {-grows}:
        return [[arm] for arm in arms]
    less = ix.sub(ix.sub(*atom.args), 1)  # negative where the first argument is the minimum
    more = ix.sub(ix.sub(*atom.args[::-1]), 1)
    return [[arms[0], less], [arms[1], more]] if atom.kind == "min" else [[arms[0], more], [arms[1], less]]


def _with_argument(e: ix.Index, atom: ix.Atom, position: int) -> ix.Index:
    """Return an index in which one argument of an atom replaces the atom."""
    return ix.rewritten(e, lambda a, args: args[position] if a.key == atom.key else None)


def _occurrences(e: ix.Index) -> Iterator[tuple[ix.Atom, int]]:
    """Yield atoms, outermost first, with the sign of the index's dependence on them: 1, -1, or 0 if unknown."""
    queue = [(t, 1 if c > 0 else -1) for t, c in ix.terms_of(e)]
    seen: set[tuple[str, int]] = set()
    for t, sign in queue:
        if not isinstance(t, ix.Atom) or (t.key, sign) in seen:
            continue
        seen.add((t.key, sign))
        yield t, sign
        monotone = t.kind in ("div", "min", "max")
        inner = [(i, c) for a in t.args for i, c in ix.terms_of(a)]
        queue += [(i, 0 if not monotone else sign if c > 0 else -sign) for i, c in inner]


def _may_all_be_negative(case: Sequence[ix.Index]) -> bool:
    """Return whether some values of the loop variables may make all indices negative."""
    system = System()
    variables: dict[str, int] = {}

    def linear(e: ix.Index) -> tuple[dict[int, int], int]:
        terms = {variables[t.key]: c for t, c in ix.terms_of(e)}
        return terms, e.const if isinstance(e, ix.Affine) else e

    for e in case:
        for v in ix.loop_vars(e).values():
            if v.key not in variables:
                variables[v.key] = system.variable(v.lo, v.hi)
        for atom in ix.postorder(e):
            if atom.key in variables:
                continue
            variables[atom.key] = quotient = system.variable(*atom.interval)
            if atom.kind == "div":  # 0 <= numerator - divisor * quotient < divisor
                terms, constant = linear(atom.args[0])
                rest = {**terms, quotient: -atom.payload}
                system.require_not_negative(rest, constant)
                system.require_not_negative({v: -c for v, c in rest.items()}, atom.payload - 1 - constant)
        terms, constant = linear(e)
        system.require_not_negative({v: -c for v, c in terms.items()}, -1 - constant)
    return system.is_feasible(SOLVER_BUDGET) is not False
