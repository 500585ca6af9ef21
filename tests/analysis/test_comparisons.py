"""Comparison operators over ranges of differences, against all pairs in a small box."""

from __future__ import annotations

import itertools

import pytest

from autosched.analysis.indices.comparisons import COMPARE, MIRRORED, NEGATED, decide
from autosched.lang.expr import COMPARISONS


@pytest.mark.parametrize("op", sorted(COMPARISONS))
def test_a_comparison_is_decided_if_all_differences_agree(op: str) -> None:
    for lo, hi in itertools.combinations_with_replacement(range(-3, 4), 2):
        outcomes = {COMPARE[op](difference, 0) for difference in range(lo, hi + 1)}
        assert decide(op, lo, hi) == (outcomes.pop() if len(outcomes) == 1 else None)


@pytest.mark.parametrize("op", sorted(COMPARISONS))
def test_mirror_image_and_negation(op: str) -> None:
    for a, b in itertools.product(range(3), repeat=2):
        assert COMPARE[MIRRORED[op]](b, a) == COMPARE[op](a, b)
        assert COMPARE[NEGATED[op]](a, b) != COMPARE[op](a, b)
