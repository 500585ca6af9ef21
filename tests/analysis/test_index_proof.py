"""Proofs that indices are never negative, against all values of their loop variables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from autosched.analysis.indices import index as ix
from autosched.analysis.indices.proof import is_never_negative
from tests.analysis.test_index import POINTS, Tree, built, evaluated, trees

B = ix.var("b", 0, 9)
C = ix.var("c", 0, 9)


def clamped(i: ix.Index, hi: int) -> ix.Index:
    found: ix.Index = ix.minimum(ix.maximum(i, 0), hi)
    return found


def least(e: ix.Index) -> int:
    """The smallest value, by enumeration."""
    names = ix.loop_vars(e)
    points = itertools.product(*(range(v.lo, v.hi + 1) for v in names.values()))
    return min(int(ix.evaluate(e, dict(zip(names, p, strict=True)))) for p in points)


@given(trees())
@settings(max_examples=300, deadline=None, derandomize=True)
def test_proofs_hold_at_every_point(tree: Tree) -> None:
    e = built(tree)
    values = [evaluated(tree, point) for point in POINTS]
    assert not is_never_negative(ix.sub(e, int(np.min(values)) + 1))


EXACT = {
    "floors of the same thing": ix.sub(ix.floordiv(ix.add(ix.scale(B, 3), 4), 2), ix.floordiv(ix.scale(B, 3), 2)),
    "nested floors": ix.sub(ix.scale(B, 5), ix.scale(ix.floordiv(ix.add(ix.floordiv(ix.scale(B, 5), 2), 1), 3), 6)),
    "a remainder and a floor": ix.add(ix.scale(ix.mod(ix.scale(B, 3), 4), 2), ix.floordiv(B, 3)),
    "a clamp and the next one": ix.sub(clamped(ix.add(ix.scale(B, 4), 4), 21), clamped(ix.scale(B, 4), 21)),
    "a minimum that falls": ix.sub(ix.scale(B, 2), ix.minimum(ix.scale(B, 3), ix.add(B, 4))),
    "one or the other": ix.maximum(ix.sub(ix.scale(B, 2), 9), ix.sub(9, ix.scale(B, 2))),
    "a floor of a clamp": ix.sub(ix.floordiv(clamped(ix.sub(ix.scale(B, 3), 5), 13), 2), ix.floordiv(B, 5)),
    "two variables": ix.add(ix.sub(ix.maximum(B, C), ix.minimum(B, C)), ix.minimum(ix.floordiv(C, 4), B)),
}


@pytest.mark.parametrize("name", EXACT)
def test_sums_floors_remainders_and_clamps_are_decided_exactly(name: str) -> None:
    e = EXACT[name]
    lowest = least(e)
    assert is_never_negative(ix.sub(e, lowest))
    assert not is_never_negative(ix.sub(e, lowest + 1))


def test_ranges_may_have_any_length() -> None:
    b = ix.var("b", 0, 1 << 60)
    following = ix.floordiv(ix.add(ix.scale(b, 7), 7), 3)
    last = ix.floordiv(ix.add(ix.scale(b, 7), 6), 3)
    assert is_never_negative(ix.sub(ix.add(last, 1), following))
    assert not is_never_negative(ix.sub(last, following))


def test_proofs_that_are_too_long_are_given_up() -> None:
    names = [ix.var(f"v{k}", 0, 100) for k in range(40)]
    e: ix.Index = 0
    for k in range(0, 40, 2):
        e = ix.add(e, ix.sub(ix.minimum(names[k], ix.scale(names[k + 1], 3)), ix.minimum(names[k], names[k + 1])))
    assert not is_never_negative(e)
