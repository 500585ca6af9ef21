"""Arithmetic of symbolic indices, simplified on construction.

Operations with a constant outcome over the intervals of loop variables are not built, such as a floor division without
remainder or a clamp without effect. Minima and maxima drop redundant arguments, so that a chain of clamps stays as
short as one.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import Any

import numpy as np

from autosched.analysis.indices.arrays import added, larger, multiplied, smaller
from autosched.analysis.indices.terms import (
    Affine,
    Atom,
    Index,
    Interval,
    LoopVar,
    Number,
    Term,
    interval,
    key,
    shortened,
)


def var(name: str, lo: int, hi: int) -> Index:
    """Return a loop variable as an index (a constant when its range is one point)."""
    return lo if lo == hi else Affine(((LoopVar(name, lo, hi), 1),), 0)


def data(value: Any, lo: int, hi: int, text: str) -> Index:
    """Return a data-dependent index in ``[lo, hi]``; ``text`` identifies it."""
    return _atom("data", (), value, f"data<{text}>", (lo, hi))


def _atom(kind: str, args: tuple[Index, ...], payload: Any, text: str, bounds: Interval) -> Index:
    if bounds[0] == bounds[1]:
        return bounds[0]
    return Affine(((Atom(kind, args, payload, shortened(text), bounds), 1),), 0)


def _make(terms: dict[str, tuple[Term, int]], const: int) -> Index:
    kept = tuple([tc for k in sorted(terms) if (tc := terms[k])[1]])
    return Affine(kept, const) if kept else const


def add(a: Number, b: Number) -> Any:
    """Return ``a + b``."""
    if isinstance(b, Affine):
        a, b = b, a
    if not isinstance(a, Affine):
        return added(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else a + b
    if not isinstance(b, Affine):
        return Affine(a.terms, a.const + int(b)) if b else a
    return _sum(a, b, 1)


def _sum(a: Affine, b: Affine, factor: int) -> Index:
    """Return ``a + factor * b``."""
    terms = {t.key: (t, c) for t, c in a.terms}
    for t, c in b.terms:
        before = terms.get(t.key)
        terms[t.key] = (t, factor * c + before[1]) if before else (t, factor * c)
    return _make(terms, a.const + factor * b.const)


def weighted_sum(const: int, parts: Iterable[tuple[Number, int]]) -> Any:
    """Return ``const`` plus indices, or integers and arrays, times integers."""
    terms: dict[str, tuple[Term, int]] = {}
    arrays: Number = 0
    for e, c in parts:
        if isinstance(e, Affine):
            const += c * e.const
            for t, k in e.terms:
                before = terms.get(t.key)
                terms[t.key] = (t, c * k + before[1]) if before else (t, c * k)
        elif isinstance(e, np.ndarray):
            arrays = add(arrays, scale(e, c))
        else:
            const += c * int(e)
    symbolic: Number = _make(terms, const)
    return symbolic if isinstance(arrays, int) else add(arrays, symbolic)


def scale(a: Number, c: int) -> Any:
    """Return ``a * c`` for an integer ``c``."""
    if not isinstance(a, Affine):
        return multiplied(a, c) if isinstance(a, np.ndarray) else a * c
    if c == 0:
        return 0
    return a if c == 1 else Affine(tuple((t, k * c) for t, k in a.terms), a.const * c)


def sub(a: Number, b: Number) -> Any:
    """Return ``a - b``."""
    if isinstance(b, int):
        return add(a, -b)
    if isinstance(a, Affine) and isinstance(b, Affine):
        return _sum(a, b, -1)
    return add(a, scale(b, -1))


def multiply(a: Number, b: Number) -> Any:
    """Return ``a * b``; two variable factors become one atom."""
    if isinstance(a, Affine) and isinstance(b, Affine):
        corners = [p * q for p in a.interval for q in b.interval]
        x, y = sorted((a, b), key=lambda e: e.key)
        return _atom("prod", (x, y), None, f"{x.key}*{y.key}", (min(corners), max(corners)))
    if isinstance(a, Affine):
        return scale(a, int(b))
    if isinstance(b, Affine):
        return scale(b, int(a))
    return multiplied(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else a * b


def _split(a: Affine, c: int) -> tuple[Index, Index]:
    """Return ``(q, r)`` with ``a == c*q + r``, coefficients of ``r`` below ``c`` and with their signs in ``a``.

    Then ``q`` and the floor of ``r / c`` change in the same direction with each variable: bounds of the sum are exact.
    """
    q: dict[str, tuple[Term, int]] = {}
    r: dict[str, tuple[Term, int]] = {}
    for t, k in a.terms:
        whole = k // c if k >= 0 else -(-k // c)
        q[t.key] = (t, whole)
        r[t.key] = (t, k - c * whole)
    return _make(q, a.const // c), _make(r, a.const % c)


def floordiv(a: Number, c: int) -> Any:
    """Return ``floor(a / c)`` for a positive integer ``c``."""
    if c == 1:
        return a
    if not isinstance(a, Affine):
        return a // c
    q, r = _split(a, c)
    lo, hi = interval(r)
    if lo // c == hi // c:
        return add(q, lo // c)
    assert isinstance(r, Affine)
    if len(r.terms) == 1 and r.const == 0 and r.terms[0][1] == 1:
        inner = r.terms[0][0]
        if isinstance(inner, Atom) and inner.kind == "div":
            return add(q, floordiv(inner.args[0], c * inner.payload))
    if (reduced := _without_rest(r, c)) is not None:
        return add(q, floordiv(*reduced))
    return add(q, _atom("div", (r,), c, f"{r.key}//{c}", (lo // c, hi // c)))


def _without_rest(a: Affine, c: int) -> tuple[Index, int] | None:
    """Return ``(x, m)`` with ``floor(a / c) == floor(x / m)`` for a smaller divisor; None if there is none.

    ``(12*t + s) // 192`` is ``t // 16`` for ``s`` in 0..11.
    """
    coefficients = [k for _, k in a.terms if abs(k) > 1]
    common = gcd(c, *coefficients) if coefficients else 1
    if common == 1:
        return None
    rest = _make({t.key: (t, k) for t, k in a.terms if k % common}, a.const % common)
    lo, hi = interval(rest)
    if lo < 0 or hi >= common:
        return None
    whole = {t.key: (t, k // common) for t, k in a.terms if k % common == 0}
    return _make(whole, a.const // common), c // common


def mod(a: Number, c: int) -> Any:
    """Return ``a`` modulo a positive integer ``c``, in ``[0, c)``."""
    if c == 1:
        return a * 0 if isinstance(a, np.ndarray) else 0
    if not isinstance(a, Affine):
        return a % c
    _, r = _split(a, c)
    lo, hi = interval(r)
    if lo // c == hi // c:
        return add(r, -(lo // c) * c)
    assert isinstance(r, Affine)
    return _atom("mod", (r,), c, f"{r.key}%{c}", (0, c - 1))


def arms(a: Index, kind: str) -> tuple[Index, Index] | None:
    """Return ``(p, q)`` of an index that is their minimum or maximum, possibly plus a sum; else None."""
    if not isinstance(a, Affine):
        return None
    candidates = [t for t, c in a.terms if c == 1 and isinstance(t, Atom) and t.kind == kind]
    if len(candidates) != 1:
        return None
    (atom,) = candidates
    rest = _make({t.key: (t, c) for t, c in a.terms if t is not atom}, a.const)
    return add(atom.args[0], rest), add(atom.args[1], rest)


def at_most(a: Index, b: Index, depth: int = 4) -> bool:
    """Return whether ``a <= b`` follows from the ranges of loop variables and the arguments of minima and maxima.

    Args:
        a: The smaller index.
        b: The larger index.
        depth: Limit of the nested minima and maxima.
    """
    return bool(interval(sub(a, b))[1] <= 0) or _follows(a, b, depth)


def _follows(a: Index, b: Index, depth: int = 4) -> bool:
    """Return whether ``a <= b`` because of a min or max in either of them."""
    if depth == 0:
        return False
    if (parts := arms(a, "max")) is not None:
        return all(at_most(p, b, depth - 1) for p in parts)
    if (parts := arms(b, "min")) is not None:
        return all(at_most(a, p, depth - 1) for p in parts)
    if (parts := arms(a, "min")) is not None and any(at_most(p, b, depth - 1) for p in parts):
        return True
    return (parts := arms(b, "max")) is not None and any(at_most(a, p, depth - 1) for p in parts)


def minimum(a: Number, b: Number) -> Any:
    """Return the smaller of two indices."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return smaller(a, b)
    if not isinstance(a, Affine) and not isinstance(b, Affine):
        return min(a, b)
    lo, hi = interval(sub(a, b))
    if hi <= 0 or _follows(a, b):
        return a
    if lo >= 0 or _follows(b, a):
        return b
    for x, y in ((a, b), (b, a)):
        if (parts := arms(x, "min")) is not None:
            for p, q in (parts, parts[::-1]):
                if at_most(y, p):  # min(min(p, q), y)  ->  min(q, y)
                    return minimum(q, y)
    (al, ah), (bl, bh) = interval(a), interval(b)
    total = add(a, b)  # half of a constant sum is a bound
    high = min(ah, bh, total // 2) if isinstance(total, int) else min(ah, bh)
    return _atom("min", (a, b), None, f"min({key(a)},{key(b)})", (min(al, bl), high))


def maximum(a: Number, b: Number) -> Any:
    """Return the larger of two indices."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return larger(a, b)
    if not isinstance(a, Affine) and not isinstance(b, Affine):
        return max(a, b)
    lo, hi = interval(sub(a, b))
    if hi <= 0 or _follows(a, b):
        return b
    if lo >= 0 or _follows(b, a):
        return a
    for x, y in ((a, b), (b, a)):
        if (parts := arms(x, "max")) is not None:
            for p, q in (parts, parts[::-1]):
                if at_most(p, y):  # max(max(p, q), y)  ->  max(q, y)
                    return maximum(q, y)
        if (parts := arms(x, "min")) is not None:
            for p, q in (parts, parts[::-1]):
                if at_most(y, p):  # max(min(q, p), y)  ->  min(max(q, y), p), the form of a clamp
                    return minimum(maximum(q, y), p)
    (al, ah), (bl, bh) = interval(a), interval(b)
    total = add(a, b)
    low = max(al, bl, -(-total // 2)) if isinstance(total, int) else max(al, bl)
    return _atom("max", (a, b), None, f"max({key(a)},{key(b)})", (low, max(ah, bh)))


def select(condition: Any, a: Index, b: Index, text: str, bounds: Interval | None = None) -> Index:
    """Return ``a`` where the condition holds, else ``b``; ``bounds`` may tighten the hull of the arms.

    The condition is ``True``, ``False`` or opaque.
    """
    if condition is True or key(a) == key(b):
        return a
    if condition is False:
        return b
    (al, ah), (bl, bh) = interval(a), interval(b)
    hull = (min(al, bl), max(ah, bh))
    if bounds is not None:
        hull = (max(hull[0], bounds[0]), min(hull[1], bounds[1]))
    return _atom("select", (a, b), condition, f"select<{text}>({key(a)},{key(b)})", hull)
