"""Ranges of bit operations, by a search bit by bit from the top over prefixes of the operands."""

from __future__ import annotations

from collections.abc import Callable

Range = tuple[int, int]
Prefix = int | None
"""The upper bits of a number; None if all numbers with these bits are in the range."""
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
    """Return the range of ``a << count`` or ``a >> count`` before wrapping; counts are modulo ``bits``."""
    low, high = count
    counts = range(low % bits, high % bits + 1) if low // bits == high // bits else range(bits)
    ends = [end << n if op == "shl" else end >> n for end in a for n in counts]
    return min(ends), max(ends)


def _largest(table: Callable[[int, int], int], a: Range, b: Range) -> int:
    """Return the largest result of a bitwise operation; the sign bit counts as negative."""
    width = max(end.bit_length() for end in (*a, *b))
    result = 0
    prefixes: set[tuple[Prefix, Prefix]] = {(0, 0)}
    for place in range(width, -1, -1):
        by_bit: dict[int, set[tuple[Prefix, Prefix]]] = {}
        for p, q in prefixes:
            for x, longer_p in _steps(p, place, width, a):
                for y, longer_q in _steps(q, place, width, b):
                    by_bit.setdefault(table(x, y), set()).add((longer_p, longer_q))
        bit = min(by_bit) if place == width else max(by_bit)
        result, prefixes = (-bit if place == width else 2 * result + bit), by_bit[bit]
    return result


def _steps(prefix: Prefix, place: int, width: int, r: Range) -> list[tuple[int, Prefix]]:
    """Return the possible bits at ``place`` of numbers in a range, each with the longer prefix."""
    if prefix is None:
        return [(0, None), (1, None)]
    steps: list[tuple[int, Prefix]] = []
    for bit in (0, 1):
        longer = -bit if place == width else 2 * prefix + bit
        first = longer << place
        last = first + (1 << place) - 1
        if first <= r[1] and last >= r[0]:
            steps.append((bit, None if r[0] <= first and last <= r[1] else longer))
    return steps
