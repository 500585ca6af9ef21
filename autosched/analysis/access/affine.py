"""Affine access matrices with rational entries: derivatives of indices by the loops around them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.indices import index as ix
from autosched.analysis.indices.to_index import to_index
from autosched.lang.expr import Expr, Load

EXACT = (Fraction(0), Fraction(0))


@dataclass(frozen=True, slots=True)
class AffineForm:
    """``sum(coefficient * loop) + constant``, which approximates an index within ``error``.

    Args:
        coefficients: By loop name, none zero; rational where the index divides (``x // 2`` has 1/2).
        constant: The form's value where all loops are 0.
        error: Inclusive range of the index's value minus the form's; a floor makes it negative.
    """

    coefficients: Mapping[str, Fraction]
    constant: Fraction
    error: tuple[Fraction, Fraction] = EXACT

    @property
    def exact(self) -> bool:
        """Whether the form equals the index at every point."""
        return self.error == EXACT

    def plus(self, other: AffineForm, factor: Fraction) -> AffineForm:
        """Return ``self + factor * other``."""
        total = dict(self.coefficients)
        for name, c in other.coefficients.items():
            total[name] = total.get(name, Fraction(0)) + factor * c
        low, high = sorted(factor * e for e in other.error)
        return AffineForm(
            {name: c for name, c in total.items() if c},
            self.constant + factor * other.constant,
            (self.error[0] + low, self.error[1] + high),
        )


@dataclass(frozen=True, slots=True)
class AccessMatrix:
    """The Jacobian of a load's indices: a row for each dimension of the producer, a column for each loop.

    Args:
        loops: Names of the columns.
        rows: Entries, or None for a dimension whose index is not affine (data dependent, minimum, remainder).
        offsets: Index where all loops are 0, those without a column included, before floors.
        errors: Inclusive range of the index minus the affine value, due to floors; None as in ``rows``.
    """

    loops: tuple[str, ...]
    rows: tuple[tuple[Fraction, ...] | None, ...]
    offsets: tuple[Fraction | None, ...]
    errors: tuple[tuple[Fraction, Fraction] | None, ...]

    @property
    def exact(self) -> tuple[bool, ...]:
        """For each dimension, whether the index is affine without floors."""
        return tuple(e == EXACT for e in self.errors)

    @property
    def is_affine(self) -> bool:
        """Whether every dimension has a row."""
        return None not in self.rows

    def as_numpy(self) -> NDArray[np.float64]:
        """Return the entries as ``float64[dims, loops]``; rows that are not affine are NaN."""
        missing = [math.nan] * len(self.loops)
        entries = [missing if row is None else [float(c) for c in row] for row in self.rows]
        return np.array(entries, np.float64).reshape(len(self.rows), len(self.loops))


def affine_form(e: Expr, memo: dict[int, ix.Index] | None = None) -> AffineForm | None:
    """Return an integer expression of a bound pipeline as an affine form over its loops, or None.

    Floor division by a constant makes the form rational. Casts to integers of at least 32 bits, and arithmetic in these
    types, count as exact, since coordinates are far from the types' limits.

    Args:
        e: An index expression with constant shapes and integer parameters.
        memo: Converted subexpressions by ``id``; see `to_index`.
    """
    return form_of_index(to_index(e, memo))


def access_matrix(load: Load, loops: Sequence[str], memo: dict[int, ix.Index] | None = None) -> AccessMatrix:
    """Return the access matrix of a load over the given loops; other loops are constant."""
    forms = [affine_form(i, memo) for i in load.indices]
    zero = Fraction(0)
    return AccessMatrix(
        tuple(loops),
        tuple(None if f is None else tuple(f.coefficients.get(name, zero) for name in loops) for f in forms),
        tuple(None if f is None else f.constant for f in forms),
        tuple(None if f is None else f.error for f in forms),
    )


def form_of_index(index: ix.Index) -> AffineForm | None:
    """Return a symbolic index as an affine form over its loops, or None."""
    forms: dict[str, AffineForm | None] = {}
    for atom in ix.postorder(index):
        forms[atom.key] = _quotient_form(atom, forms) if atom.kind == "div" else None
    return _sum_form(index, forms)


def _sum_form(index: ix.Index, forms: Mapping[str, AffineForm | None]) -> AffineForm | None:
    if not isinstance(index, ix.Affine):
        return AffineForm({}, Fraction(index))
    total = AffineForm({}, Fraction(index.const))
    for term, c in index.terms:
        form = AffineForm({term.name: Fraction(1)}, Fraction(0)) if isinstance(term, ix.LoopVar) else forms[term.key]
        if form is None:
            return None
        total = total.plus(form, Fraction(c))
    return total


def _quotient_form(atom: ix.Atom, forms: Mapping[str, AffineForm | None]) -> AffineForm | None:
    numerator, divisor = atom.args[0], int(atom.payload)
    form = _sum_form(numerator, forms)
    if form is None:
        return None
    quotient = AffineForm({}, Fraction(0)).plus(form, Fraction(1, divisor))
    # the numerator is congruent to its constant modulo g, which bounds the error of the floor
    g = math.gcd(divisor, *(c for _, c in ix.terms_of(numerator)))
    least = (numerator.const if isinstance(numerator, ix.Affine) else numerator) % g
    low, high = Fraction(least + divisor - g, divisor), Fraction(least, divisor)
    return AffineForm(quotient.coefficients, quotient.constant, (quotient.error[0] - low, quotient.error[1] - high))
