"""Ranges of mirrored indices against enumeration: integers, arrays of candidates, and symbolic tiles."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.analysis.indices import index as ix
from autosched.analysis.indices.reflection import reflection_of

SHIFT, LOW = 3, 5
"""Added before and after the reflection."""


def mirrored(i: int, n: int, with_edge: bool) -> int:
    """Return the element that index ``i`` reads of ``n`` elements, by stepping back and forth."""
    padded = np.pad(np.arange(n), 60, mode="symmetric" if with_edge else "reflect")
    return int(padded[i + 60])


def wave(n: int, with_edge: bool) -> ix.Index:
    """Return the mirrored index of the loop variable ``x``, as `autosched.lang.boundary` defines it."""
    crest = 2 * n - 1 if with_edge else 2 * n - 2
    i = ix.mod(ix.add(ix.var("x", -ix.UNBOUNDED, ix.UNBOUNDED), SHIFT), 2 * n if with_edge else max(crest, 1))
    index: ix.Index = ix.add(ix.minimum(i, ix.sub(crest, i)), LOW)
    return index


def enumerated(lo: int, hi: int, n: int, with_edge: bool) -> tuple[int, int]:
    values = [mirrored(i + SHIFT, n, with_edge) + LOW for i in range(lo, hi + 1)]
    return min(values), max(values)


@pytest.mark.parametrize("with_edge", [True, False])
@pytest.mark.parametrize("n", range(1, 9))
def test_ranges_are_exact_for_any_number_of_reflections(n: int, with_edge: bool) -> None:
    index = wave(n, with_edge)
    ranges = [(lo, hi) for lo in range(-24, 25) for hi in range(lo, min(lo + 20, 25))]
    expected = [enumerated(lo, hi, n, with_edge) for lo, hi in ranges]
    assert [ix.bounds(index, {"x": r}) for r in ranges] == expected
    lows, highs = (np.array(ends) for ends in zip(*ranges, strict=True))
    low, high = ix.bounds(index, {"x": (lows, highs)})
    assert np.array_equal(np.broadcast_to(low, len(lows)), [lo for lo, _ in expected])
    assert np.array_equal(np.broadcast_to(high, len(lows)), [hi for _, hi in expected])


@pytest.mark.parametrize("with_edge", [True, False])
@pytest.mark.parametrize("tile", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("halo", [0, 1, 4, 17])
def test_ranges_of_symbolic_tiles_are_exact(tile: int, halo: int, with_edge: bool) -> None:
    for n in (1, 3, 8, 13):
        blocks = -(-n // tile)
        start = ix.scale(ix.var("b", 0, blocks - 1), tile)
        ends = ix.sub(start, halo + SHIFT), ix.add(ix.minimum(ix.add(start, tile - 1), n - 1), halo - SHIFT)
        region = ix.bounds(wave(n, with_edge), {"x": ends})
        for b in range(blocks):
            lo, hi = (ix.evaluate(e, {"b": b}) for e in ends)
            assert tuple(ix.evaluate(e, {"b": b}) for e in region) == enumerated(lo, hi, n, with_edge)


def test_a_tile_larger_than_its_halo_has_the_ends_of_a_clamped_tile() -> None:
    start = ix.scale(ix.var("b", 0, 63), 16)
    low, high = ix.bounds(wave(1024, True), {"x": (ix.sub(start, 2 + SHIFT), ix.add(start, 17 - SHIFT))})
    assert ix.key(low) == ix.key(ix.add(ix.maximum(ix.sub(start, 2), 0), LOW))
    assert ix.key(high) == ix.key(ix.add(ix.minimum(ix.add(start, 17), 1023), LOW))
    assert ix.extent(low, high) == 20


def test_other_minima_are_no_reflections() -> None:
    x = ix.var("x", -100, 100)
    i = ix.mod(x, 8)
    for other in (ix.sub(9, i), ix.sub(6, i), ix.sub(7, ix.mod(x, 9)), ix.add(i, ix.scale(x, 2)), x):
        (atom,) = (t for t, _ in ix.terms_of(ix.minimum(i, other)) if isinstance(t, ix.Atom) and t.kind == "min")
        assert reflection_of(atom) is None


@pytest.mark.parametrize("with_edge", [True, False])
def test_empty_ranges_stay_empty(with_edge: bool) -> None:
    """Guards of producers in threads compare the ends of such ranges, for points beyond those of the host."""
    for n in (3, 5, 8):
        index = wave(n, with_edge)
        for lo in range(-n - SHIFT, 2 * n - SHIFT - 1):
            for hi in range(max(lo - 4, -n - SHIFT), lo):
                low, high = ix.bounds(index, {"x": (lo, hi)})
                assert low > high


def test_the_range_of_one_point_is_its_index() -> None:
    """Producers in registers are read at the distance from it, which must be constant."""
    x, last = ix.var("x", 0, 67), 63
    folded = ix.minimum(ix.maximum(x, ix.sub(-1, x)), ix.sub(127, x))
    low, high = ix.bounds(wave(64, True), {"x": (ix.sub(x, SHIFT), ix.sub(ix.minimum(x, last), SHIFT))})
    assert ix.key(low) == ix.key(ix.add(folded, LOW))
    ends = [(ix.evaluate(low, {"x": k}), ix.evaluate(high, {"x": k})) for k in range(68)]
    assert [lo == hi for lo, hi in ends] == [k <= last for k in range(68)]
    assert all(lo >= hi for lo, hi in ends)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("crest", [2, 5, 6])
def test_ranges_of_the_form_without_remainders_hold_beyond_one_reflection(crest: int, sign: int) -> None:
    """A program may write this form itself, such as ``min(max(x, -x), x + 2)``."""
    i = ix.scale(ix.var("x", -ix.UNBOUNDED, ix.UNBOUNDED), sign)
    low = -(crest % 2)
    index = ix.minimum(ix.maximum(i, ix.sub(low, i)), ix.sub(crest, i))
    for lo in range(-12, 13):
        for hi in range(lo, 13):
            values = [min(max(sign * x, low - sign * x), crest - sign * x) for x in range(lo, hi + 1)]
            for ends in ((lo, hi), (np.array([lo]), np.array([hi]))):
                first, last = ix.bounds(index, {"x": ends})
                assert first <= min(values) and max(values) <= last
