"""Proofs about symbolic indices, whose work does not grow with the ranges of their loop variables.

An index that may be negative has a point where it is. Minima and maxima turn "below zero" there into conditions on
their arguments: where the index grows with a minimum, one of the two arguments makes it negative; where it falls with
a minimum, both do (and the other way round for a maximum); where it does either, their difference tells the smaller
one. Sums of loop variables and floors are left, which the Omega test decides exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autosched.analysis.access.affine import form_of_index
from autosched.analysis.access.omega import System
from autosched.analysis.indices import index as ix

MOST_CASES = 128
"""Combinations of arguments of minima and maxima that a proof may look at; some tiles of pyramids need a few dozen."""
SOLVER_BUDGET = 6_000
"""Rows that the Omega test may handle in one of them."""


def is_never_negative(e: ix.Index) -> bool:
    """Return whether an index is proven to be at least 0 for all values of its loop variables.

    Exact for sums, floors, remainders, minima and maxima, as long as the proof is short; products, selects and data
    count as any value in their interval.
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
        chosen = _choice(e)
        if chosen is None:
            if not _is_bounded(e):
                cases.append(_Case(tuple(others), (*case.resolved, e)))
            continue
        for given in _alternatives(e, *chosen):
            if all(ix.interval(i)[0] < 0 for i in given):
                cases.append(_Case((*given, *others), case.resolved))
    return False


@dataclass(frozen=True, slots=True)
class _Case:
    """Indices that are all negative at some point, unless they are shown not to be; the ``resolved`` have no minima."""

    unresolved: tuple[ix.Index, ...]
    resolved: tuple[ix.Index, ...] = ()


def _without_remainder(atom: ix.Atom, args: Sequence[ix.Index]) -> ix.Index | None:
    """Return a remainder as what a floor leaves."""
    if atom.kind != "mod":
        return None
    found: ix.Index = ix.sub(args[0], ix.scale(ix.floordiv(args[0], atom.payload), atom.payload))
    return found


def _is_bounded(e: ix.Index) -> bool:
    """Return whether an index is not negative anywhere if floors may be off by all that they cut."""
    form = form_of_index(e)
    if form is None:
        return False
    variables = ix.loop_vars(e)
    least = form.constant + form.error[0]
    for name, c in form.coefficients.items():
        least += c * (variables[name].lo if c > 0 else variables[name].hi)
    return math.ceil(least) >= 0


def _choice(e: ix.Index) -> tuple[ix.Atom, set[int]] | None:
    """Return an outermost minimum or maximum, and in which directions the index moves with it."""
    signs: dict[str, set[int]] = {}
    first: ix.Atom | None = None
    for atom, sign in _occurrences(e):
        if atom.kind in ("min", "max"):
            first = first or atom
            signs.setdefault(atom.key, set()).add(sign)
    return None if first is None else (first, signs[first.key])


def _alternatives(e: ix.Index, atom: ix.Atom, signs: set[int]) -> list[list[ix.Index]]:
    """Return lists of indices: where one is negative, all of some list are, and these have one atom less.

    Args:
        e: The index.
        atom: A minimum or maximum in it.
        signs: The directions in which the index moves with the atom.
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
    """Return an index with one of an atom's arguments in its place."""
    return ix.rewritten(e, lambda a, args: args[position] if a.key == atom.key else None)


def _occurrences(e: ix.Index) -> Iterator[tuple[ix.Atom, int]]:
    """Yield atoms, outer ones first, with the direction in which the index moves with them: 1, -1, or 0 if unknown."""
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
    """Return whether some values of the loop variables make all of some indices negative, or that is not known."""
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
