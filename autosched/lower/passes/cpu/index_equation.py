"""Equations for the equality of two flat indices, one per dimension that can be recovered (delinearisation)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from autosched.analysis.indices import index as ix


@dataclass(frozen=True, slots=True)
class Unknown:
    """A term of an equation.

    Attributes:
        scale: Its coefficient, not zero.
        term: The unknown.
        side: The iteration that it belongs to, 0 or 1; -1 if it has the same value in both.
    """

    scale: int
    term: ix.Term
    side: int

    @property
    def interval(self) -> ix.Interval:
        """Inclusive range of the scaled term."""
        lo, hi = (self.scale * end for end in self.term.interval)
        return min(lo, hi), max(lo, hi)


@dataclass(frozen=True, slots=True)
class Equation:
    """``sum(unknowns) + constant == 0``."""

    unknowns: tuple[Unknown, ...]
    constant: int


def split_equation(e: Equation) -> list[Equation] | None:
    """Return equations whose conjunction is equivalent to an equation; None if it has no solution.

    Unknowns with small coefficients get a separate equation if their sum is less than the common divisor of the
    other coefficients. With all unknowns below 10, ``10*a + b - 10*c - d == 0`` is ``b == d`` and ``a == c``.
    """
    unknowns = sorted(e.unknowns, key=lambda u: abs(u.scale))
    constant, equations = e.constant, list[Equation]()
    start = 0
    for k in range(1, len(unknowns)):
        step = gcd(*(u.scale for u in unknowns[k:]))
        lo, hi = _range(unknowns[start:k])
        rest = constant % step
        first = -(-(lo + rest) // step)  # multiples of the step that the small terms reach
        if (hi + rest) // step > first:
            continue
        if (hi + rest) // step < first:
            return None
        equations.append(Equation(tuple(unknowns[start:k]), rest - first * step))
        constant += first * step - rest
        start = k
    equations.append(Equation(tuple(unknowns[start:]), constant))
    return equations if all(map(_may_hold, equations)) else None


def _may_hold(e: Equation) -> bool:
    lo, hi = _range(e.unknowns)
    step = gcd(*(u.scale for u in e.unknowns))
    return lo <= -e.constant <= hi and (e.constant % step == 0 if step else e.constant == 0)


def _range(unknowns: Sequence[Unknown]) -> ix.Interval:
    ends = [u.interval for u in unknowns]
    return sum(lo for lo, _ in ends), sum(hi for _, hi in ends)
