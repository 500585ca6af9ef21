"""Exact integer index expressions: affine sums over loop variables and a few non-affine atoms.

An index is a Python ``int`` or an `Affine`. Every node has a canonical text, for equality and hashing, and the interval
of its values for the ranges of its loop variables. So simplification is local and exact: a minimum, floor division or
remainder that the intervals decide is not built. The same functions accept NumPy arrays, for regions of many candidates
or many blocks at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from math import prod
from typing import Any

import numpy as np

from autosched.analysis.indices.index_arithmetic import add as add
from autosched.analysis.indices.index_arithmetic import arms as arms
from autosched.analysis.indices.index_arithmetic import at_most as at_most
from autosched.analysis.indices.index_arithmetic import data as data
from autosched.analysis.indices.index_arithmetic import floordiv as floordiv
from autosched.analysis.indices.index_arithmetic import maximum as maximum
from autosched.analysis.indices.index_arithmetic import minimum as minimum
from autosched.analysis.indices.index_arithmetic import mod as mod
from autosched.analysis.indices.index_arithmetic import multiply as multiply
from autosched.analysis.indices.index_arithmetic import scale as scale
from autosched.analysis.indices.index_arithmetic import select as select
from autosched.analysis.indices.index_arithmetic import sub as sub
from autosched.analysis.indices.index_arithmetic import var as var
from autosched.analysis.indices.index_arithmetic import weighted_sum as weighted_sum
from autosched.analysis.indices.reflection import is_triangle, reflected_range, reflection_of
from autosched.analysis.indices.terms import UNBOUNDED as UNBOUNDED
from autosched.analysis.indices.terms import Affine as Affine
from autosched.analysis.indices.terms import Atom as Atom
from autosched.analysis.indices.terms import Index as Index
from autosched.analysis.indices.terms import Interval as Interval
from autosched.analysis.indices.terms import LoopVar as LoopVar
from autosched.analysis.indices.terms import Number as Number
from autosched.analysis.indices.terms import Term as Term
from autosched.analysis.indices.terms import interval as interval
from autosched.analysis.indices.terms import key as key

ENUMERATED = 1 << 18
"""Limit of the combinations of loop variables that `extent` enumerates."""


def terms_of(e: Index) -> tuple[tuple[Term, int], ...]:
    """Return the terms of an index (none for a constant)."""
    return e.terms if isinstance(e, Affine) else ()


def atoms(e: Index) -> Iterator[Term]:
    """Yield the different terms at any depth."""
    seen: set[str] = set()
    stack = [t for t, _ in reversed(terms_of(e))]
    while stack:
        t = stack.pop()
        if t.key in seen:
            continue
        seen.add(t.key)
        yield t
        if isinstance(t, Atom):
            stack.extend(inner for a in reversed(t.args) for inner, _ in reversed(terms_of(a)))


def postorder(e: Index, done: Container[str] = ()) -> Collection[Atom]:
    """Return the atoms at any depth, inner ones first; most indices have none.

    Args:
        e: The index.
        done: Keys of atoms to skip, with their inner atoms.
    """
    stack = [t for t, _ in reversed(terms_of(e)) if isinstance(t, Atom) and t.key not in done]
    ordered: dict[str, Atom] = {}
    while stack:
        t = stack[-1]
        atoms_inside = (i for a in t.args for i, _ in terms_of(a) if isinstance(i, Atom))
        inner = [i for i in atoms_inside if i.key not in ordered and i.key not in done]
        if inner and t.key not in ordered:
            stack.extend(reversed(inner))
        else:
            ordered.setdefault(t.key, t)
            stack.pop()
    return ordered.values()


def loop_vars(e: Index) -> dict[str, LoopVar]:
    """Return the loop variables of an index by name, without those inside data values."""
    return {t.name: t for t in atoms(e) if isinstance(t, LoopVar)}


def substitute(e: Index, env: Mapping[str, Number], on_data: Any = None) -> Any:
    """Replace loop variables by indices, integers or arrays, and simplify.

    ``on_data(atom)`` returns the index of a data-dependent atom or the condition of a select; without it these atoms
    are unchanged.
    """
    if not isinstance(e, Affine):
        return e
    done: dict[str, Number] = {}

    def total(a: Index) -> Number:
        if not isinstance(a, Affine):
            return a
        return weighted_sum(a.const, [(value(t), c) for t, c in a.terms])

    def value(t: Term) -> Number:
        return done[t.key] if isinstance(t, Atom) else env[t.name] if t.name in env else _as_index(t)

    for t, _ in e.terms:
        if isinstance(t, Atom):
            break
    else:  # the common case: a sum of loop variables
        return total(e)
    for atom in postorder(e):
        done[atom.key] = _substituted(atom, [total(a) for a in atom.args], on_data)
    return total(e)


def rebuilt(atom: Atom, args: Sequence[Index]) -> Index:
    """Return an atom with other arguments, simplified."""
    result: Index = _substituted(atom, args, None)
    return result


def rewritten(e: Index, choose: Callable[[Atom, Sequence[Index]], Index | None]) -> Index:
    """Return an index in which some atoms are replaced, innermost first.

    Args:
        e: The index.
        choose: Called as ``choose(atom, arguments)``; returns the replacement of an atom, or None to keep it.
    """
    if not isinstance(e, Affine):
        return e
    done: dict[str, Index] = {}

    def total(a: Index) -> Index:
        if not isinstance(a, Affine):
            return a
        result: Index = weighted_sum(a.const, [(done[t.key] if t.key in done else _as_index(t), c) for t, c in a.terms])
        return result

    for atom in postorder(e):
        args = [total(a) for a in atom.args]
        replacement = choose(atom, args)
        done[atom.key] = _substituted(atom, args, None) if replacement is None else replacement
    return total(e)


def _as_index(t: Term) -> Affine:
    return Affine(((t, 1),), 0)


def _substituted(t: Atom, args: Sequence[Number], on_data: Any) -> Any:
    match t.kind:
        case "data":
            return _as_index(t) if on_data is None else on_data(t)
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
        return select(t.payload, args[0], args[1], t.key, t.interval)
    condition, text = on_data(t)
    return select(condition, args[0], args[1], text, t.interval)


def bounds(
    e: Index, env: Mapping[str, tuple[Number, Number]], done: dict[str, tuple[Number, Number]] | None = None
) -> tuple[Any, Any]:
    """Return the inclusive range of an index whose loop variables, or other terms by key, range over ``env``.

    The ends may be integers, symbolic indices (of outer loops) or arrays (of candidates). Exact for affine indices and
    for mirrored ones (`autosched.analysis.indices.reflection`); otherwise a hull that grows with the ranges
    (inclusion-monotone).

    Args:
        e: The index.
        env: Ranges.
        done: Memo of the ranges of atoms for the same ``env``; those of this index are added.
    """
    if not isinstance(e, Affine):
        return e, e
    done = {} if done is None else done

    def total(a: Index) -> tuple[Number, Number]:
        if not isinstance(a, Affine):
            return a, a
        lo: Number = a.const
        hi: Number = a.const
        for t, c in a.terms:
            low, high = done[t.key] if isinstance(t, Atom) else env.get(t.name, t.interval)
            if c < 0:
                low, high = high, low
            lo, hi = add(lo, scale(low, c)), add(hi, scale(high, c))
        return lo, hi

    for atom in postorder(e, done):
        given = env.get(atom.key)
        if given is None and (wave := reflection_of(atom)) is not None:
            lo, hi = total(wave.at)
            given = reflected_range(wave, lo, hi) if is_triangle(wave, lo, hi) else None
        done[atom.key] = _atom_bounds(atom, [total(a) for a in atom.args]) if given is None else given
    return total(e)


def _atom_bounds(t: Atom, ranges: Sequence[tuple[Number, Number]]) -> tuple[Any, Any]:
    if t.kind == "data":
        return t.interval
    lo, hi = ranges[0]
    match t.kind:
        case "div":
            return _quotients(lo, hi, t.payload)
        case "mod":
            return _mod_bounds(lo, hi, t.payload)
        case "min":
            lo, hi, total = minimum(lo, ranges[1][0]), minimum(hi, ranges[1][1]), add(*t.args)
            return lo, minimum(hi, total // 2) if isinstance(total, int) else hi
        case "max":
            lo, hi, total = maximum(lo, ranges[1][0]), maximum(hi, ranges[1][1]), add(*t.args)
            return maximum(lo, -(-total // 2)) if isinstance(total, int) else lo, hi
        case "prod":
            return _product_bounds(ranges)
    return maximum(minimum(lo, ranges[1][0]), t.interval[0]), minimum(maximum(hi, ranges[1][1]), t.interval[1])


def _quotients(lo: Number, hi: Number, c: int) -> tuple[Number, Number]:
    """Return the quotients of the ends of a range; that of ``hi`` is a minimum if a bound of it has that of ``lo``.

    The end of a tile is the minimum of its last point and that of the Func. A range without points stays so.
    """
    first, last = floordiv(lo, c), floordiv(hi, c)
    if isinstance(last, Affine) and isinstance(hi, Affine) and key(first) != key(last):
        ends = [floordiv(p, c) for p in arms(hi, "min") or ()]
        if any(key(end) == key(first) for end in ends):
            last = reduce(minimum, ends)
    return first, last


def _has_one_quotient(first: Number, last: Number) -> bool:
    """Whether the quotients of a range's ends are equal unless it has no points."""
    return key(first) == key(last) or any(key(p) == key(first) for p in arms(last, "min") or ())


def _mod_bounds(lo: Number, hi: Number, c: int) -> tuple[Any, Any]:
    q0, q1 = _quotients(lo, hi, c)
    if isinstance(q0, np.ndarray) or isinstance(q1, np.ndarray):
        same = np.equal(q0, q1)
        return np.where(same, sub(lo, scale(q0, c)), 0), np.where(same, sub(hi, scale(q0, c)), c - 1)
    if _has_one_quotient(q0, q1):
        ends = [sub(p, scale(q0, c)) for p in arms(hi, "min") or (hi,)]
        return sub(lo, scale(q0, c)), reduce(minimum, ends)
    return 0, c - 1


def _product_bounds(ranges: Sequence[tuple[Number, Number]]) -> tuple[Any, Any]:
    (a, b), (c, d) = (
        (lo.interval[0] if isinstance(lo, Affine) else lo, hi.interval[1] if isinstance(hi, Affine) else hi)
        for lo, hi in ranges
    )
    corners = [multiply(a, c), multiply(a, d), multiply(b, c), multiply(b, d)]
    lo, hi = corners[0], corners[0]
    for x in corners[1:]:
        lo, hi = minimum(lo, x), maximum(hi, x)
    return lo, hi


def evaluate(e: Index, env: Mapping[str, Number]) -> Any:
    """Return the exact value for integers or arrays as loop variables.

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
    """Return the largest ``hi - lo + 1`` over all values of the loop variables, exact up to `ENUMERATED` of them."""
    difference = add(sub(hi, lo), 1)
    if isinstance(difference, Affine) and any(key(p) == key(lo) for p in arms(hi, "min") or ()):
        return max(min(difference.interval[1], 1), 0)
    if not isinstance(difference, Affine):
        return max(int(difference), 0)
    names = loop_vars(difference)
    ranges = tuple((v.name, v.lo, v.hi) for v in names.values())
    if prod(max(hi - lo + 1, 0) for _, lo, hi in ranges) == 0:
        return 0
    if any(isinstance(t, Atom) and t.kind in ("data", "select") for t in atoms(difference)):
        return max(difference.interval[1], 0)
    return _largest(difference, ranges)


@lru_cache(maxsize=1 << 14)
def _largest(e: Affine, ranges: tuple[tuple[str, int, int], ...]) -> int:
    """Return the largest value, at least 0, of an index without data; cached by text and ranges."""
    if prod(hi - lo + 1 for _, lo, hi in ranges) > ENUMERATED:
        return max(e.interval[1], 0)
    grids = np.meshgrid(*(np.arange(lo, hi + 1) for _, lo, hi in ranges), indexing="ij", sparse=True)
    return max(int(np.max(evaluate(e, {name: g for (name, *_), g in zip(ranges, grids, strict=True)}))), 0)
