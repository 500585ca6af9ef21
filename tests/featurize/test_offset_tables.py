"""Accesses of one thread, against enumeration of all its points in pure Python."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.featurize.accesses.accesses import AccessGroup, AccessRow
from autosched.featurize.accesses.offset_tables import CountingRule, OffsetTable, UniqueAccesses
from autosched.featurize.accesses.thread_accesses import ThreadAccessPattern
from autosched.featurize.regions.nest_geometry import TileBox

STEPS = (1000, 4)


def group(*rows: AccessRow, offsets: Sequence[tuple[int, ...]] = ((0, 0),)) -> AccessGroup:
    return AccessGroup("f", 0, rows, tuple(offsets))


def row(quotient: int = 1, **coefficients: int) -> AccessRow:
    return AccessRow(tuple(sorted(coefficients.items())), 0, quotient, exact=True)


PLAIN = (row(y=1), row(x=1))


def tile(*serial: int, partial: Sequence[int] | None = None) -> TileBox:
    d = len(serial)
    limits = np.where(np.eye(d, dtype=bool), np.array(partial or serial), np.array(serial)[None])
    return TileBox(serial, limits, (), np.zeros((0, d), np.int64), np.zeros((0, d), np.int64))


def entries(
    table: OffsetTable,
    of: TileBox,
    how: CountingRule,
    earlier: Sequence[ThreadAccessPattern] = (),
    guarded: bool = False,
) -> UniqueAccesses:
    return table.entries(ThreadAccessPattern(table, of, guarded=guarded), earlier, STEPS, how)


stencils = st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2)), min_size=1, max_size=9, unique=True)
sizes = st.tuples(st.integers(1, 4), st.integers(1, 4))


@given(stencils, sizes, st.integers(1, 3), st.integers(1, 3))
@settings(deadline=None)
def test_a_tile_loads_each_element_once(
    offsets: list[tuple[int, int]], serial: tuple[int, int], a: int, b: int
) -> None:
    table = OffsetTable(group(row(y=a), row(x=b), offsets=offsets), "f", ("y", "x"), ())
    found = entries(table, tile(*serial), CountingRule.DISTINCT)
    points = itertools.product(range(serial[0]), range(serial[1]))
    elements = {(a * y + dy, b * x + dx) for y, x in points for dy, dx in offsets}
    assert found.times.sum() == len(elements)
    expected = Counter((1000 * y + 4 * x) % 32 for y, x in elements)
    counted: Counter[int] = Counter()
    for start, times in zip(found.start.tolist(), found.times.tolist(), strict=True):
        counted[start] += times
    assert counted == expected


@given(stencils, sizes)
@settings(deadline=None)
def test_as_written_each_access_counts_at_every_point(offsets: list[tuple[int, int]], serial: tuple[int, int]) -> None:
    table = OffsetTable(group(*PLAIN, offsets=offsets), "f", ("y", "x"), ())
    assert entries(table, tile(*serial), CountingRule.EVERY).times.sum() == len(offsets) * serial[0] * serial[1]


def test_an_access_that_does_not_move_with_the_inner_loop_is_hoisted_out_of_it() -> None:
    rows_only = OffsetTable(group(row(y=1), row()), "f", ("y", "x"), ())
    columns_only = OffsetTable(group(row(), row(x=1)), "f", ("y", "x"), ())
    assert entries(rows_only, tile(4, 3), CountingRule.WRITTEN).times.sum() == 4
    assert entries(columns_only, tile(4, 3), CountingRule.WRITTEN).times.sum() == 12
    assert entries(columns_only, tile(4, 3), CountingRule.DISTINCT).times.sum() == 3
    assert entries(rows_only, tile(4, 3), CountingRule.WRITTEN, guarded=True).times.sum() == 12


def test_the_last_thread_skips_points_beyond_its_tile() -> None:
    table = OffsetTable(group(*PLAIN), "f", ("y", "x"), ())
    found = entries(table, tile(2, 4, partial=(2, 1)), CountingRule.EVERY)
    full = {tuple(f): 0 for f in found.full.tolist()}
    for f, times in zip(found.full.tolist(), found.times.tolist(), strict=True):
        full[tuple(f)] += times
    assert full == {(True, True): 2, (True, False): 6}


def test_a_floor_division_leaves_the_remainder_to_the_lanes() -> None:
    table = OffsetTable(group(row(y=1), row(2, x=1), offsets=((0, -1), (0, 0), (0, 1))), "f", ("y", "x"), ())
    found = entries(table, tile(1, 1), CountingRule.DISTINCT)
    start_and_rest = sorted(zip(found.start.tolist(), found.remainders[:, 1].tolist(), strict=True))
    assert start_and_rest == [(0, 0), (0, 1), (28, 1)]  # -1 // 2 is the element before, 4 bytes earlier


def test_short_reductions_are_unrolled_with_the_tile_and_long_ones_are_not() -> None:
    filtered = group(row(y=1), row(x=1, r=1))
    short = OffsetTable(filtered, "f", ("y", "x"), (("r", 0, 4),))
    long = OffsetTable(filtered, "f", ("y", "x"), (("r", 0, 49),))
    assert entries(short, tile(1, 4), CountingRule.DISTINCT).times.sum() == 8
    assert entries(long, tile(1, 4), CountingRule.DISTINCT).times.sum() == 200
    assert entries(long, tile(1, 4), CountingRule.EVERY).times.sum() == 200


def test_elements_of_an_earlier_nest_are_not_loaded_again() -> None:
    first = OffsetTable(group(*PLAIN, offsets=((0, 0), (0, 1))), "f", ("y", "x"), ())
    second = OffsetTable(group(*PLAIN, offsets=((0, 0), (0, 1), (1, 1))), "g", ("y", "x"), ())
    one = tile(1, 1)
    before = ThreadAccessPattern(first, one)
    assert entries(second, one, CountingRule.DISTINCT, [before]).times.sum() == 1
    shifted = ThreadAccessPattern(first, one, shift=np.array([0, 1]))
    assert len(_entries(second, shifted, CountingRule.DISTINCT)) == 2
    assert len(_entries(second, ThreadAccessPattern(first, one, guarded=True), CountingRule.WRITTEN)) == 3


def _entries(table: OffsetTable, before: ThreadAccessPattern, how: CountingRule) -> list[int]:
    one = tile(1, 1)
    found = table.entries(ThreadAccessPattern(table, one), [before], STEPS, how)
    return [t for t in found.times.tolist() for _ in range(t)]


def test_a_nest_inside_one_thread_moves_with_the_loops_around_it() -> None:
    table = OffsetTable(group(*PLAIN, offsets=((0, -1), (0, 0), (0, 1))), "f", ("y", "x"), ())
    moves = np.array([[0, 1]])
    inner = TileBox((1, 1), np.ones((1, 2), np.int64), (4,), moves, np.array([[2]]))
    visit = ThreadAccessPattern(table, inner, (("g", "x"),), (False,))
    found = table.entries(visit, [], STEPS, CountingRule.DISTINCT)
    assert found.times.sum() == 6  # x - 1 to x + 1 for four neighbours
    assert sum(t for t, f in zip(found.times.tolist(), found.full.tolist(), strict=True) if f[0]) == 4
    every = table.entries(visit, [], STEPS, CountingRule.EVERY)
    assert every.times.sum() == 12


@given(st.integers(1, 200), st.integers(-9, 9), st.integers(1, 3))
@settings(deadline=None)
def test_long_reductions_reach_the_bytes_of_a_sector_in_turn(extra: int, step: int, lanes: int) -> None:
    """20,000 further periods have the same addresses with higher multiplicity."""
    filtered = group(row(r=step), row(x=1))
    few, many = (
        entries(OffsetTable(filtered, "f", ("y", "x"), (("r", 0, n - 1),)), tile(1, lanes), CountingRule.DISTINCT)
        for n in (64 + extra, 64 + extra + 32 * 20_000)
    )
    assert few.start.tolist() == many.start.tolist()
    assert many.times.sum() - few.times.sum() == (32 * 20_000 * lanes if step else 0)


def test_billions_of_terms_take_no_array() -> None:
    table = OffsetTable(group(row(r=1), row(x=1)), "f", ("y", "x"), (("r", 0, 1 << 40),))
    assert entries(table, tile(1, 2), CountingRule.DISTINCT).times.sum() == 2 * ((1 << 40) + 1)
