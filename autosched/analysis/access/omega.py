"""Integer feasibility of linear constraints: the Omega test (Pugh, 1991).

Equalities are removed by substitutions that map integers to integers one to one. Inequalities are projected variable
by variable (Fourier-Motzkin). Where projection is inexact over the integers, the real shadow can only refute and the
dark shadow only confirm. The remaining solutions lie on finitely many slices (equalities), as in thin polyhedra.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BUDGET = 60_000
"""Most rows to process; systems of usual array indices need some hundred."""

FEW = 8
"""Number of slices up to which slices are tried before shadows."""

Row = tuple[dict[int, int], int]
"""Coefficients by variable (none zero) and a constant: ``sum(c * v) + constant``."""


class System:
    """A conjunction of linear equalities and inequalities over integer variables."""

    def __init__(self) -> None:
        self._count = 0
        self._equalities: list[Row] = []
        self._inequalities: list[Row] = []

    def variable(self, lo: int | None = None, hi: int | None = None) -> int:
        """Add a variable, with inclusive bounds where given, and return its number."""
        v = self._count
        self._count += 1
        if lo is not None:
            self.require_not_negative({v: 1}, -lo)
        if hi is not None:
            self.require_not_negative({v: -1}, hi)
        return v

    def require_zero(self, terms: Mapping[int, int], constant: int) -> None:
        """Add ``sum(c * v) + constant == 0``."""
        self._equalities.append(_row(terms, constant))

    def require_not_negative(self, terms: Mapping[int, int], constant: int) -> None:
        """Add ``sum(c * v) + constant >= 0``."""
        self._inequalities.append(_row(terms, constant))

    def is_feasible(self, budget: int = BUDGET) -> bool | None:
        """Return whether there is an integer solution; None where the budget does not suffice."""
        try:
            return _is_feasible(self._equalities, self._inequalities, _Budget(budget))
        except _OutOfBudget:
            return None


class _OutOfBudget(Exception):
    pass


@dataclass(slots=True)
class _Budget:
    rows: int

    def spend(self, rows: int) -> None:
        self.rows -= rows
        if self.rows < 0:
            raise _OutOfBudget


@dataclass(frozen=True, slots=True)
class _Slices:
    """The equalities ``row == k`` for ``k`` in ``range(count)``."""

    row: Row
    count: int


def _row(terms: Mapping[int, int], constant: int) -> Row:
    return {v: c for v, c in terms.items() if c}, constant


def _is_feasible(equalities: Sequence[Row], inequalities: Sequence[Row], budget: _Budget) -> bool:
    while True:
        budget.spend(len(inequalities))
        solved = _without_equalities(list(equalities), list(inequalities), budget)
        tightened = None if solved is None else _tightened(solved)
        if tightened is None:
            return False
        equalities, inequalities = tightened
        if equalities:
            continue
        v = _next_variable(inequalities)
        if v is None:
            return True  # every remaining variable lacks upper or lower bounds
        lower = [r for r in inequalities if r[0].get(v, 0) > 0]
        upper = [r for r in inequalities if r[0].get(v, 0) < 0]
        rest = [r for r in inequalities if v not in r[0]]
        budget.spend(len(lower) * len(upper))
        if _is_exact(v, lower, upper):
            inequalities = rest + _shadow(v, lower, upper, dark=False)
            continue
        return _is_feasible_above_shadows(v, lower, upper, rest, budget)


def _is_feasible_above_shadows(
    v: int, lower: Sequence[Row], upper: Sequence[Row], rest: list[Row], budget: _Budget
) -> bool:
    """Decide inequalities without an exact projection: by shadows of ``v``, then slice by slice."""
    inequalities = [*lower, *upper, *rest]
    thin = _thinnest(inequalities)
    if thin is not None and thin.count <= FEW:
        slices = [thin]
    else:
        if not _is_feasible([], rest + _shadow(v, lower, upper, dark=False), budget):
            return False
        if _is_feasible([], rest + _shadow(v, lower, upper, dark=True), budget):
            return True
        slices = _splinters(v, lower, upper)
        if thin is not None and thin.count < sum(s.count for s in slices):
            slices = [thin]
    return any(_is_feasible([(s.row[0], s.row[1] - k)], inequalities, budget) for s in slices for k in range(s.count))


def _without_equalities(equalities: list[Row], inequalities: list[Row], budget: _Budget) -> list[Row] | None:
    """Eliminate all equalities; return the equivalent inequalities, None if the equalities have no integer solution."""
    while equalities:
        terms, constant = equalities[-1]
        divisor = math.gcd(*terms.values())
        if not terms or constant % divisor:
            if constant:
                return None
            equalities.pop()
            continue
        terms, constant = {v: c // divisor for v, c in terms.items()}, constant // divisor
        v, pivot = min(terms.items(), key=lambda term: abs(term[1]))
        others = {u: c for u, c in terms.items() if u != v}
        if abs(pivot) == 1:
            equalities.pop()
            value = {u: -pivot * c for u, c in others.items()}, -pivot * constant
        else:  # a new variable in place of v leaves remainders smaller than the pivot: Euclid's algorithm on the row
            value = {v: 1} | {u: -(c // pivot) for u, c in others.items()}, -(constant // pivot)
        budget.spend(len(equalities) + len(inequalities))
        equalities = [_substitute(r, v, value) for r in equalities]
        inequalities = [_substitute(r, v, value) for r in inequalities]
    return inequalities


def _substitute(row: Row, v: int, value: Row) -> Row:
    terms, constant = row
    factor = terms.get(v, 0)
    if not factor:
        return row
    return _sum(({u: c for u, c in terms.items() if u != v}, constant), 1, value, factor)


def _sum(a: Row, factor_a: int, b: Row, factor_b: int) -> Row:
    terms = {v: factor_a * c for v, c in a[0].items()}
    for v, c in b[0].items():
        terms[v] = terms.get(v, 0) + factor_b * c
    return _row(terms, factor_a * a[1] + factor_b * b[1])


def _tightened(inequalities: Sequence[Row]) -> tuple[list[Row], list[Row]] | None:
    """Round constants to integers, keep the tightest of parallel rows, and turn touching pairs into equalities."""
    tightest: dict[tuple[tuple[int, int], ...], int] = {}
    for terms, constant in inequalities:
        if not terms:
            if constant < 0:
                return None
            continue
        divisor = math.gcd(*terms.values())
        normal = tuple(sorted((v, c // divisor) for v, c in terms.items()))
        tightest[normal] = min(constant // divisor, tightest.get(normal, constant // divisor))
    equalities: list[Row] = []
    kept: list[Row] = []
    for normal, constant in tightest.items():
        opposite = tightest.get(tuple((v, -c) for v, c in normal))
        if opposite is not None and constant + opposite < 0:
            return None
        if opposite is None or constant + opposite > 0:
            kept.append((dict(normal), constant))
        elif normal[0][1] > 0:  # one of the two is enough
            equalities.append((dict(normal), constant))
    return equalities, kept


def _next_variable(inequalities: list[Row]) -> int | None:
    """Drop variables without lower or upper bounds with their rows; return the cheapest remaining one to project."""
    while True:
        bounds: dict[int, tuple[list[int], list[int]]] = {}
        for terms, _ in inequalities:
            for v, c in terms.items():
                bounds.setdefault(v, ([], []))[c < 0].append(abs(c))
        free = {v for v, (lower, upper) in bounds.items() if not lower or not upper}
        if not free:
            break
        inequalities[:] = [r for r in inequalities if free.isdisjoint(r[0])]

    def cost(v: int) -> tuple[int, int, int]:
        lower, upper = bounds[v]
        return min(max(lower), max(upper)), len(lower) * len(upper) - len(lower) - len(upper), v

    return min(bounds, key=cost, default=None)


def _is_exact(v: int, lower: Sequence[Row], upper: Sequence[Row]) -> bool:
    """Whether projecting ``v`` away loses no integer solution and adds none."""
    return all(r[0][v] == 1 for r in lower) or all(r[0][v] == -1 for r in upper)


def _shadow(v: int, lower: Sequence[Row], upper: Sequence[Row], *, dark: bool) -> list[Row]:
    """Project ``v`` away; above each point of the dark shadow there is an integer ``v``."""
    rows = []
    for low in lower:
        for high in upper:
            b, a = low[0][v], -high[0][v]
            terms, constant = _sum(low, a, high, b)
            rows.append((terms, constant - (a - 1) * (b - 1) if dark else constant))
    return rows


def _splinters(v: int, lower: Sequence[Row], upper: Sequence[Row]) -> list[_Slices]:
    """Return the slices of all solutions outside the dark shadow, where ``v`` is just above a lower bound."""
    steepest = max(-r[0][v] for r in upper)
    return [_Slices(r, (steepest * r[0][v] - steepest - r[0][v]) // steepest + 1) for r in lower]


def _thinnest(inequalities: Sequence[Row]) -> _Slices | None:
    """Return the fewest parallel slices between two opposite inequalities; they contain all solutions."""
    constants = {tuple(sorted(terms.items())): constant for terms, constant in inequalities}
    candidates = []
    for normal, constant in constants.items():
        opposite = constants.get(tuple((v, -c) for v, c in normal))
        if opposite is not None:
            candidates.append(_Slices((dict(normal), constant), constant + opposite + 1))
    return min(candidates, key=lambda s: s.count, default=None)
