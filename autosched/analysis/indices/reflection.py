"""Mirrored indices: their form, and the exact range of a mirrored range.

A mirrored index is a triangle wave ``min(i % period, crest - i % period)`` between 0 and ``top``. Its period is
``2n`` with ``crest = 2n - 1`` where the edge element of ``n`` is repeated, else ``2n - 2`` with the same crest as
period (`autosched.lang.boundary`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from autosched.analysis.indices.index_arithmetic import add, at_most, maximum, minimum, mod, sub
from autosched.analysis.indices.terms import Affine, Atom, Index, Number, interval


class Reflection(NamedTuple):
    """The triangle wave of an index.

    Attributes:
        at: The index before reflection.
        period: Its period.
        crest: Sum of two indices, within one period, of the same value.
        folded: Whether the form is that without remainders, which has other values outside of one reflection.
    """

    at: Index
    period: int
    crest: int
    folded: bool = False

    @property
    def top(self) -> int:
        """Largest value."""
        return self.crest // 2


def reflection_of(t: Atom) -> Reflection | None:
    """Return the triangle wave that an atom is, None for other atoms.

    Besides the form with remainders it is ``min(max(i, -1 - i), crest - i)``, with ``-i`` where the edge is not
    repeated (`autosched.analysis.boundaries.mirror_folding`). Outside one reflection this form has other values
    (`is_triangle`).
    """
    rising, falling = t.args if t.kind == "min" else (0, 0)
    if not isinstance(rising, Affine) or not isinstance(falling, Affine) or len(rising.terms) != 1 or rising.const:
        return None
    (wave, up), crest = rising.terms[0], falling.const
    if not isinstance(wave, Atom) or up != 1:
        return None
    if wave.kind == "mod":
        period, (down, slope) = wave.payload, falling.terms[0]
        is_wave = len(falling.terms) == 1 and slope == -1 and down.key == wave.key and crest in (period - 1, period)
        return Reflection(wave.args[0], period, crest) if is_wave else None
    return _folded_reflection(wave, falling) if wave.kind == "max" else None


def _folded_reflection(wave: Atom, falling: Affine) -> Reflection | None:
    """Return the triangle wave of the minimum of a maximum and a falling index, None if it is none."""
    for rising, below in (wave.args, wave.args[::-1]):
        if isinstance(rising, Affine) and isinstance(below, Affine):
            low, crest = add(rising, below), add(rising, falling)
            if isinstance(crest, int) and low in (-1, 0) and crest % 2 == low % 2 and crest > 0:
                return Reflection(rising, crest - low, crest, folded=True)
    return None


def is_triangle(wave: Reflection, lo: Number, hi: Number) -> bool:
    """Whether the form of a wave has the values of the triangle over an inclusive range of its index."""
    if not wave.folded:
        return True
    if any(isinstance(end, np.ndarray) and not end.size for end in (lo, hi)):
        return True
    first = lo.min() if isinstance(lo, np.ndarray) else interval(lo)[0]
    last = hi.max() if isinstance(hi, np.ndarray) else interval(hi)[1]
    return bool(wave.crest - wave.period - wave.top <= first and last <= wave.crest)


def reflected_range(wave: Reflection, lo: Number, hi: Number) -> tuple[Any, Any]:
    """Return the exact inclusive range of a triangle wave over an inclusive range of its index.

    With the range moved by whole periods so that it begins in the period around 0, the wave over it is
    ``min(max(i, -1 - i), crest - i)``, as the edge is repeated below 0 as well; ``-i`` where it is not. A range that
    is long enough to leave this form has all values, which is the outcome of the same expression. An empty range stays
    empty::

        n = 8, edge repeated:      [-2, 5]  ->  [0, 5]      [5, 10]  ->  [5, 7]      [8, 9]  ->  [6, 7]

    Args:
        wave: The triangle wave.
        lo: Lower end: an integer, a symbolic index or an array.
        hi: Upper end, likewise.
    """
    below = wave.crest - wave.period  # sum of two indices around 0 of the same value
    first = below - wave.top
    if not isinstance(lo, np.ndarray) and not isinstance(hi, np.ndarray):
        whole = (interval(lo)[0] - first) // wave.period * wave.period
        if interval(hi)[1] - whole <= wave.crest:  # the same distance for all values of the ends
            start, end = sub(lo, whole), sub(hi, whole)
            if isinstance(lo, Affine) and at_most(hi, lo):  # one point, or none: the index itself, without clamps
                point = minimum(maximum(start, sub(below, start)), sub(wave.crest, start))
                return point, add(point, sub(hi, lo))
            return _folded_range(wave, below, start, end)
    start = add(mod(sub(lo, first), wave.period), first)
    return _folded_range(wave, below, start, add(start, sub(hi, lo)))


def _folded_range(wave: Reflection, below: int, start: Number, end: Number) -> tuple[Any, Any]:
    """Return the range of a triangle wave over a range that begins in the period around 0."""
    low = minimum(maximum(start, sub(below, end)), sub(wave.crest, end))
    high = minimum(maximum(end, sub(below, start)), sub(wave.crest, start))
    return maximum(low, 0), minimum(high, wave.top)
