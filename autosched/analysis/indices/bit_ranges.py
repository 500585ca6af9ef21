"""Ranges of bitwise operations, from the ranges of their operands.

The bounds of ``and``, ``or`` and ``xor`` are exact: those of Warren, Hacker's Delight, section 4-3, for operands of one
sign; ranges of both signs are split at zero. Negative numbers are in two's complement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

Interval = tuple[int, int]


def bitwise_range(op: str, a: Interval, b: Interval) -> Interval:
    """Return the least and greatest value of ``a op b``, for ``op`` in "and", "or", "xor"."""
    ends = [_of_one_sign(op, p, q) for p in _by_sign(a) for q in _by_sign(b)]
    return min(lo for lo, _ in ends), max(hi for _, hi in ends)


def shift_range(op: str, a: Interval, count: Interval, bits: int) -> Interval:
    """Return the range of a shift, not wrapped.

    Args:
        op: "shl" or "shr".
        a: Range of the shifted operand.
        count: Range of the count, which counts modulo the width.
        bits: Width of the type.
    """
    first, last = count if count[0] >= 0 and count[1] < bits else (0, bits - 1)
    if count[0] == count[1]:
        first = last = count[0] % bits
    ends = [v << n if op == "shl" else v >> n for v in a for n in (first, last)]
    return min(ends), max(ends)


def _by_sign(a: Interval) -> list[Interval]:
    """Return the negative and the non-negative part of a range."""
    lo, hi = a
    return [(lo, hi)] if lo >= 0 or hi < 0 else [(lo, -1), (0, hi)]


def _of_one_sign(op: str, a: Interval, b: Interval) -> Interval:
    """Return the range for operands of one sign each; negative ones are unsigned numbers with the top bit set."""
    top = 1 << max(v.bit_length() for v in (*a, *b))
    (p, q), (r, s) = (tuple(v % (2 * top) for v in ends) for ends in (a, b))
    least, greatest = _BOUNDS[op]
    lo, hi = least(p, q, r, s, top), greatest(p, q, r, s, top)
    return (lo, hi) if lo < top else (lo - 2 * top, hi - 2 * top)


def _least_or(a: int, b: int, c: int, d: int, m: int) -> int:
    while m:
        if ~a & c & m and (raised := (a | m) & -m) <= b:
            a = raised
            break
        if a & ~c & m and (raised := (c | m) & -m) <= d:
            c = raised
            break
        m >>= 1
    return a | c


def _greatest_or(a: int, b: int, c: int, d: int, m: int) -> int:
    while m:
        if b & d & m:
            if (lowered := (b - m) | (m - 1)) >= a:
                b = lowered
                break
            if (lowered := (d - m) | (m - 1)) >= c:
                d = lowered
                break
        m >>= 1
    return b | d


def _least_and(a: int, b: int, c: int, d: int, m: int) -> int:
    ones = 2 * m - 1
    return ones - _greatest_or(ones - b, ones - a, ones - d, ones - c, m)


def _greatest_and(a: int, b: int, c: int, d: int, m: int) -> int:
    ones = 2 * m - 1
    return ones - _least_or(ones - b, ones - a, ones - d, ones - c, m)


def _least_xor(a: int, b: int, c: int, d: int, m: int) -> int:
    while m:
        if ~a & c & m:
            if (raised := (a | m) & -m) <= b:
                a = raised
        elif a & ~c & m and (raised := (c | m) & -m) <= d:
            c = raised
        m >>= 1
    return a ^ c


def _greatest_xor(a: int, b: int, c: int, d: int, m: int) -> int:
    ones = 2 * m - 1  # the greatest a ^ d is the complement of the least a ^ ~d
    return ones - _least_xor(a, b, ones - d, ones - c, m)


Bound = Callable[[int, int, int, int, int], int]
_BOUNDS: Mapping[str, tuple[Bound, Bound]] = {
    "and": (_least_and, _greatest_and),
    "or": (_least_or, _greatest_or),
    "xor": (_least_xor, _greatest_xor),
}
