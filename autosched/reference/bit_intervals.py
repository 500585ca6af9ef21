"""Ranges of bit operations, found bit by bit from the top: which prefixes of the operands give the largest result."""

from __future__ import annotations

from collections.abc import Callable

Range = tuple[int, int]
Prefix = int | None
"""The upper bits of a number; None where all numbers that start so lie in the range."""
_TABLES: dict[str, Callable[[int, int], int]] = {
    "and": lambda p, q: p & q,
    "or": lambda p, q: p | q,
    "xor": lambda p, q: p ^ q,
}


def bit_interval(op: str, a: Range, b: Range) -> Range:
    """Return the smallest and largest value of ``a op b``, for ``op`` in "and", "or", "xor"."""
    table = _TABLES[op]
    return ~_largest(lambda p, q: 1 - table(p, q), a, b), _largest(table, a, b)


def shift_interval(op: str, a: Range, count: Range, bits: int) -> Range:
    """Return the range of ``a << count`` or ``a >> count`` before it wraps; counts are taken modulo ``bits``."""
    low, high = count
    counts = range(low % bits, high % bits + 1) if low // bits == high // bits else range(bits)
    ends = [end << n if op == "shl" else end >> n for end in a for n in counts]
    return min(ends), max(ends)


def _largest(table: Callable[[int, int], int], a: Range, b: Range) -> int:
    """Return the largest result of an operation on each bit; the sign's bit counts negative."""
    width = max(end.bit_length() for end in (*a, *b))
    result = 0
    prefixes: set[tuple[Prefix, Prefix]] = {(0, 0)}
    for place in range(width, -1, -1):
        found: dict[int, set[tuple[Prefix, Prefix]]] = {}
        for p, q in prefixes:
            for x, longer in _steps(p, place, width, a):
                for y, other in _steps(q, place, width, b):
                    found.setdefault(table(x, y), set()).add((longer, other))
        bit = min(found) if place == width else max(found)
        result, prefixes = (-bit if place == width else 2 * result + bit), found[bit]
    return result


def _steps(prefix: Prefix, place: int, width: int, r: Range) -> list[tuple[int, Prefix]]:
    """Return the bits that numbers of a range may have at ``place``, with the longer prefixes."""
    if prefix is None:
        return [(0, None), (1, None)]
    found: list[tuple[int, Prefix]] = []
    for bit in (0, 1):
        longer = -bit if place == width else 2 * prefix + bit
        first = longer << place
        last = first + (1 << place) - 1
        if first <= r[1] and last >= r[0]:
            found.append((bit, None if r[0] <= first and last <= r[1] else longer))
    return found
