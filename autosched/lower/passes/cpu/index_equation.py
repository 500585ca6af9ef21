"""Where two flat indices are the same: an equation for each dimension that they can be told to have."""

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
        term: What it is.
        side: Which of two iterations it is of, 0 or 1; -1 where it has one value in both.
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
    """Return equations that all hold exactly where one does (delinearisation); None if it never does.

    Unknowns with small coefficients, whose sum stays below what the other coefficients are multiples of, have an
    equation of their own: with all unknowns below 10, ``10*a + b - 10*c - d == 0`` is ``b == d`` and ``a == c``.
    """
    unknowns = sorted(e.unknowns, key=lambda u: abs(u.scale))
    constant, found = e.constant, list[Equation]()
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
        found.append(Equation(tuple(unknowns[start:k]), rest - first * step))
        constant += first * step - rest
        start = k
    found.append(Equation(tuple(unknowns[start:]), constant))
    return found if all(map(_may_hold, found)) else None


def _may_hold(e: Equation) -> bool:
    lo, hi = _range(e.unknowns)
    step = gcd(*(u.scale for u in e.unknowns))
    return lo <= -e.constant <= hi and (e.constant % step == 0 if step else e.constant == 0)


def _range(unknowns: Sequence[Unknown]) -> ix.Interval:
    ends = [u.interval for u in unknowns]
    return sum(lo for lo, _ in ends), sum(hi for _, hi in ends)
