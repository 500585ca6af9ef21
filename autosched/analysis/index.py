"""Exact integer index expressions: affine sums over loop variables and a few non-affine atoms.

An index is a Python ``int`` or an `Affine`. Every node carries its canonical text (equality and hashing use it) and
the interval it lies in for the ranges of its loop variables, so simplification is local and exact: a minimum, floor
division or remainder that the intervals decide is never built. The same functions accept NumPy arrays, which is how
regions are computed for many candidates or many blocks at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Interval = tuple[int, int]
Number = Any  # int, Affine or NumPy integer array
UNBOUNDED = 1 << 62


@dataclass(frozen=True, slots=True)
class LoopVar:
    """A loop variable with its inclusive range."""

    name: str
    lo: int
    hi: int

    @property
    def key(self) -> str:
        """Canonical text."""
        return self.name

    @property
    def interval(self) -> Interval:
        """Inclusive range."""
        return self.lo, self.hi


@dataclass(frozen=True, slots=True, eq=False)
class Atom:
    """A non-affine integer: ``kind`` in div, mod, min, max, prod, select, data.

    ``args`` are index expressions; ``payload`` is the divisor (div, mod), the condition (select) or the value
    expression that is read (data).
    """

    kind: str
    args: tuple[Index, ...]
    payload: Any
    key: str
    interval: Interval

    def __eq__(self, o: object) -> bool:
        return isinstance(o, Atom) and self.key == o.key

    def __hash__(self) -> int:
        return hash(self.key)


Term = LoopVar | Atom


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """``const + sum(coefficient * term)``; terms sorted by their text, coefficients not zero, at least one term."""

    terms: tuple[tuple[Term, int], ...]
    const: int
    key: str = field(init=False)
    interval: Interval = field(init=False)

    def __post_init__(self) -> None:
        text = "+".join([f"{c}*{t.key}" if c != 1 else t.key for t, c in self.terms])
        object.__setattr__(self, "key", f"({text}+{self.const})" if self.const else f"({text})")
        lo = hi = self.const
        for t, c in self.terms:
            a, b = t.interval
            lo, hi = (lo + c * a, hi + c * b) if c > 0 else (lo + c * b, hi + c * a)
        object.__setattr__(self, "interval", (lo, hi))

    def __eq__(self, o: object) -> bool:
        return isinstance(o, Affine) and self.key == o.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return self.key


Index = int | Affine


def interval(e: Index) -> Interval:
    """Return the inclusive interval an index lies in."""
    return e.interval if isinstance(e, Affine) else (e, e)


def key(e: Index) -> str:
    """Return canonical text: equal texts mean equal values."""
    return e.key if isinstance(e, Affine) else str(e)


def var(name: str, lo: int, hi: int) -> Index:
    """Return a loop variable as an index (a constant when its range is one point)."""
    return lo if lo == hi else Affine(((LoopVar(name, lo, hi), 1),), 0)


def data(value: Any, lo: int, hi: int, text: str) -> Index:
    """Return an index read from data, known to lie in ``[lo, hi]``; ``text`` identifies it."""
    return _atom("data", (), value, f"data<{text}>", (lo, hi))


def _atom(kind: str, args: tuple[Index, ...], payload: Any, text: str, bounds: Interval) -> Index:
    if bounds[0] == bounds[1]:
        return bounds[0]
    return Affine(((Atom(kind, args, payload, text, bounds), 1),), 0)


def _make(terms: dict[str, tuple[Term, int]], const: int) -> Index:
    kept = sorted((k, tc) for k, tc in terms.items() if tc[1] != 0)
    return Affine(tuple(tc for _, tc in kept), const) if kept else const


def add(a: Number, b: Number) -> Any:
    """Return ``a + b``."""
    if isinstance(b, Affine):
        a, b = b, a
    if not isinstance(a, Affine):
        return a + b
    if not isinstance(b, Affine):
        return Affine(a.terms, a.const + int(b)) if b else a
    terms = {t.key: (t, c) for t, c in a.terms}
    for t, c in b.terms:
        known = terms.get(t.key)
        terms[t.key] = (t, c + known[1]) if known else (t, c)
    return _make(terms, a.const + b.const)


def scale(a: Number, c: int) -> Any:
    """Return ``a * c`` for an integer ``c``."""
    if not isinstance(a, Affine):
        return a * c
    if c == 0:
        return 0
    return a if c == 1 else Affine(tuple((t, k * c) for t, k in a.terms), a.const * c)


def sub(a: Number, b: Number) -> Any:
    """Return ``a - b``."""
    if isinstance(b, int):
        return add(a, -b)
    return add(a, scale(b, -1))


def multiply(a: Number, b: Number) -> Any:
    """Return ``a * b``; two variable factors become one atom."""
    if isinstance(a, Affine) and isinstance(b, Affine):
        corners = [p * q for p in a.interval for q in b.interval]
        x, y = sorted((a, b), key=lambda e: e.key)
        return _atom("prod", (x, y), None, f"{x.key}*{y.key}", (min(corners), max(corners)))
    if isinstance(a, Affine):
        return scale(a, int(b))
    return scale(b, int(a)) if isinstance(b, Affine) else a * b


def _split(a: Affine, c: int) -> tuple[Index, Index]:
    """Return ``(q, r)`` with ``a == c*q + r`` and every coefficient of ``r`` in ``[0, c)``."""
    q: dict[str, tuple[Term, int]] = {}
    r: dict[str, tuple[Term, int]] = {}
    for t, k in a.terms:
        q[t.key] = (t, k // c)
        r[t.key] = (t, k % c)
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
    return add(q, _atom("div", (r,), c, f"{r.key}//{c}", (lo // c, hi // c)))


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


def minimum(a: Number, b: Number) -> Any:
    """Return the smaller of two indices."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.minimum(a, b)
    if not isinstance(a, Affine) and not isinstance(b, Affine):
        return min(a, b)
    lo, hi = interval(sub(a, b))
    if hi <= 0:
        return a
    if lo >= 0:
        return b
    (al, ah), (bl, bh) = interval(a), interval(b)
    return _atom("min", (a, b), None, f"min({key(a)},{key(b)})", (min(al, bl), min(ah, bh, _half(a, b))))


def maximum(a: Number, b: Number) -> Any:
    """Return the larger of two indices."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.maximum(a, b)
    if not isinstance(a, Affine) and not isinstance(b, Affine):
        return max(a, b)
    lo, hi = interval(sub(a, b))
    if hi <= 0:
        return b
    if lo >= 0:
        return a
    (al, ah), (bl, bh) = interval(a), interval(b)
    return _atom("max", (a, b), None, f"max({key(a)},{key(b)})", (max(al, bl, -_half(a, b, -1)), max(ah, bh)))


def _half(a: Index, b: Index, sign: int = 1) -> int:
    """Return the bound that a constant sum puts on a minimum (of ``sign`` times both): half of it, rounded down."""
    total = add(a, b)
    return sign * total // 2 if isinstance(total, int) else UNBOUNDED


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


def terms_of(e: Index) -> tuple[tuple[Term, int], ...]:
    """Return the terms of an index (none for a constant)."""
    return e.terms if isinstance(e, Affine) else ()


def atoms(e: Index) -> Iterator[Term]:
    """Yield all terms at any depth."""
    for t, _ in terms_of(e):
        yield t
        if isinstance(t, Atom):
            for a in t.args:
                yield from atoms(a)


def loop_vars(e: Index) -> dict[str, LoopVar]:
    """Return the loop variables an index depends on, by name (those inside data values not included)."""
    return {t.name: t for t in atoms(e) if isinstance(t, LoopVar)}


def substitute(e: Index, env: Mapping[str, Number], on_data: Any = None) -> Any:
    """Replace loop variables by indices, integers or arrays, simplifying again.

    ``on_data(atom)`` gives the index for a data-dependent atom or the condition of a select; without it such atoms
    stay as they are.
    """
    if not isinstance(e, Affine):
        return e
    total: Any = e.const
    for t, c in e.terms:
        total = add(total, scale(_substitute_term(t, env, on_data), c))
    return total


def _substitute_term(t: Term, env: Mapping[str, Number], on_data: Any) -> Any:
    if isinstance(t, LoopVar):
        return env[t.name] if t.name in env else Affine(((t, 1),), 0)
    if t.kind == "data":
        return Affine(((t, 1),), 0) if on_data is None else on_data(t)
    args = [substitute(a, env, on_data) for a in t.args]
    match t.kind:
        case "div":
            return floordiv(args[0], t.payload)
        case "mod":
            return mod(args[0], t.payload)
        case "min":
            return minimum(args[0], args[1])
        case "max":
            return maximum(args[0], args[1])
        case "prod":
            return multiply(args[0], args[1])
    if on_data is None:
        return select(t.payload, args[0], args[1], t.key)
    condition, text = on_data(t)
    return select(condition, args[0], args[1], text, t.interval)


def bounds(e: Index, env: Mapping[str, tuple[Number, Number]]) -> tuple[Any, Any]:
    """Return the inclusive range of an index when its loop variables range over ``env``.

    The ends may be integers, symbolic indices (of outer loops) or arrays (of candidates). Exact for affine indices;
    otherwise a hull that grows with the ranges (inclusion-monotone).
    """
    if not isinstance(e, Affine):
        return e, e
    lo: Any = e.const
    hi: Any = e.const
    for t, c in e.terms:
        a, b = _term_bounds(t, env)
        if c < 0:
            a, b = b, a
        lo, hi = add(lo, scale(a, c)), add(hi, scale(b, c))
    return lo, hi


def _term_bounds(t: Term, env: Mapping[str, tuple[Number, Number]]) -> tuple[Any, Any]:
    if isinstance(t, LoopVar):
        return env.get(t.name, t.interval)
    if t.kind == "data":
        return t.interval
    ranges = [bounds(a, env) for a in t.args]
    (lo, hi) = ranges[0]
    match t.kind:
        case "div":
            return floordiv(lo, t.payload), floordiv(hi, t.payload)
        case "mod":
            return _mod_bounds(lo, hi, t.payload)
        case "min":
            return minimum(lo, ranges[1][0]), minimum(minimum(hi, ranges[1][1]), _half(t.args[0], t.args[1]))
        case "max":
            return maximum(maximum(lo, ranges[1][0]), -_half(t.args[0], t.args[1], -1)), maximum(hi, ranges[1][1])
        case "prod":
            return _product_bounds(ranges)
    return maximum(minimum(lo, ranges[1][0]), t.interval[0]), minimum(maximum(hi, ranges[1][1]), t.interval[1])


def _mod_bounds(lo: Number, hi: Number, c: int) -> tuple[Any, Any]:
    q0, q1 = floordiv(lo, c), floordiv(hi, c)
    if isinstance(q0, np.ndarray) or isinstance(q1, np.ndarray):
        same = np.equal(q0, q1)
        return np.where(same, sub(lo, scale(q0, c)), 0), np.where(same, sub(hi, scale(q0, c)), c - 1)
    if key(q0) == key(q1):
        return sub(lo, scale(q0, c)), sub(hi, scale(q0, c))
    return 0, c - 1


def _product_bounds(ranges: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    ends = [[interval(x) if isinstance(x, Affine) else (x, x) for x in r] for r in ranges]
    a, b = (r[0][0], r[1][1]) if (r := ends[0]) else (0, 0)
    c, d = (r[0][0], r[1][1]) if (r := ends[1]) else (0, 0)
    corners = [a * c, a * d, b * c, b * d]
    lo, hi = corners[0], corners[0]
    for x in corners[1:]:
        lo, hi = minimum(lo, x), maximum(hi, x)
    return lo, hi


def evaluate(e: Index, env: Mapping[str, Number]) -> Any:
    """Return the exact value for integers or arrays of all its loop variables.

    Raises:
        KeyError: If a loop variable is missing.
        TypeError: If the index depends on data.
    """
    missing = [v for v in loop_vars(e) if v not in env]
    if missing:
        raise KeyError(missing[0])
    value = substitute(e, env)
    if isinstance(value, Affine):
        raise TypeError(f"{value.key} depends on data")
    return value


def extent(lo: Index, hi: Index) -> int:
    """Return the largest ``hi - lo + 1`` over all values of the loop variables, exactly where it can be enumerated."""
    difference = add(sub(hi, lo), 1)
    if not isinstance(difference, Affine):
        return max(int(difference), 0)
    names = loop_vars(difference)
    size = 1
    for v in names.values():
        size *= v.hi - v.lo + 1
    if size <= 1 << 18 and not any(isinstance(t, Atom) and t.kind in ("data", "select") for t in atoms(difference)):
        grids = np.meshgrid(*(np.arange(v.lo, v.hi + 1) for v in names.values()), indexing="ij", sparse=True)
        return max(int(np.max(evaluate(difference, dict(zip(names, grids, strict=True))))), 0)
    return max(difference.interval[1], 0)
