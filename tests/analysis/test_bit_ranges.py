"""Ranges of bitwise operations in compiler and reference, against all values."""

from __future__ import annotations

import itertools
import operator
import random
from collections.abc import Callable

import numpy as np
import pytest

from autosched.analysis.indices.bit_ranges import bitwise_range, shift_range
from autosched.reference.bit_intervals import bit_interval, shift_interval

Range = tuple[int, int]
OPERATORS: dict[str, Callable[[int, int], int]] = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
SMALL = [(lo, hi) for lo in range(-6, 6) for hi in range(lo, 6)]


def reached(f: Callable[[int, int], int], a: Range, b: Range) -> Range:
    values = [f(p, q) for p in range(a[0], a[1] + 1) for q in range(b[0], b[1] + 1)]
    return min(values), max(values)


@pytest.mark.parametrize("op", OPERATORS)
def test_ranges_of_small_operands_are_exact(op: str) -> None:
    for a, b in itertools.product(SMALL, SMALL):
        wanted = reached(OPERATORS[op], a, b)
        assert bitwise_range(op, a, b) == wanted, (a, b)
        assert bit_interval(op, a, b) == wanted, (a, b)


@pytest.mark.parametrize("op", OPERATORS)
def test_ranges_of_larger_operands_are_exact(op: str) -> None:
    random_ = random.Random(3)
    for _ in range(60):
        p, q, r, s = (random_.randrange(-300, 300) for _ in "pqrs")
        a, b = (min(p, q), max(p, q)), (min(r, s), max(r, s))
        assert bitwise_range(op, a, b) == reached(OPERATORS[op], a, b), (a, b)


@pytest.mark.parametrize("op", OPERATORS)
def test_both_agree_on_64_bits(op: str) -> None:
    random_ = random.Random(5)
    ends = [0, -1, 1 << 63, (1 << 63) - 1, -(1 << 63), (1 << 64) - 1]
    for _ in range(200):
        drawn = [random_.choice([*ends, random_.randrange(-1 << 63, 1 << 64)]) for _ in "abcd"]
        a, b = (min(drawn[:2]), max(drawn[:2])), (min(drawn[2:]), max(drawn[2:]))
        assert bitwise_range(op, a, b) == bit_interval(op, a, b), (a, b)


@pytest.mark.parametrize("op", ["shl", "shr"])
def test_shifts_with_counts_of_any_size(op: str) -> None:
    """Counts are taken modulo the width, as NumPy's are not."""
    for a in SMALL[::5]:
        for count in itertools.combinations_with_replacement((-9, -1, 0, 2, 7, 8, 11, 20), 2):
            shifted = [
                v << n % 8 if op == "shl" else v >> n % 8
                for v in range(a[0], a[1] + 1)
                for n in range(count[0], count[1] + 1)
            ]
            for found in (shift_range(op, a, count, 8), shift_interval(op, a, count, 8)):
                assert found[0] <= min(shifted) and max(shifted) <= found[1], (a, count)
    assert shift_range(op, (4, 8), (1, 2), 8) == shift_interval(op, (4, 8), (1, 2), 8)
    assert shift_range(op, (4, 8), (1, 2), 8) == ((8, 32) if op == "shl" else (1, 4))
    assert shift_range(op, (4, 8), (33, 33), 32) == ((8, 16) if op == "shl" else (2, 4))


def test_a_shift_of_the_whole_type() -> None:
    lo, hi = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
    assert shift_range("shr", (lo, hi), (0, 63), 64) == (lo, hi)
    assert shift_range("shr", (lo, hi), (63, 63), 64) == (-1, 0)
