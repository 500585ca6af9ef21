"""Tile sizes to try, compared with the rules of the paper applied by hand."""

from __future__ import annotations

import pytest

from autosched.host import Host
from autosched.search.settings import SearchSettings
from autosched.search.space.tilings import (
    cpu_lanes,
    default_tiling,
    member_tilings,
    root_tilings,
    serial_sizes,
    thread_sizes,
)
from autosched.target import cpu_target, get_target

S = SearchSettings()
H200 = get_target("h200")
CPU = cpu_target(Host(2, 16, 1 << 20, 32 << 20, 1 << 34, 2.5e9))


@pytest.mark.parametrize(
    ("extent", "vector", "expected"),
    [
        (1, False, [1]),
        (2, False, [1, 2]),
        (3, False, [1, 3]),
        (5, True, [1, 5]),
        (8, False, [1, 2, 4, 8]),
        (100, False, [1, 2, 4, 8]),
        (96, True, [1, 2, 4, 8, 3]),  # 96 / 3 is a whole warp
        (96, False, [1, 2, 4, 8]),
        (480, True, [1, 2, 4, 8, 3, 5]),
    ],
)
def test_serial_sizes(extent: int, vector: bool, expected: list[int]) -> None:
    assert serial_sizes(extent, vector=vector, settings=S, warp=32) == expected


@pytest.mark.parametrize(
    ("extent", "vector", "alone", "expected"),
    [
        (128, True, False, [16, 32, 64]),
        (128, True, True, [1, 2, 4, 8, 16, 32, 64]),
        (40, True, False, [16, 32, 40]),
        (10, True, False, [10]),
        (1000, False, False, [1, 2, 4, 8, 16]),
        (3, False, False, [1, 3]),  # two threads would cover four points, more than 8/7 of three
        (7, False, False, [1, 2, 4, 8, 7]),
    ],
)
def test_thread_sizes(extent: int, vector: bool, alone: bool, expected: list[int]) -> None:
    assert thread_sizes(extent, vector=vector, alone=alone, settings=S, most=1024) == expected


def test_root_tilings_keep_to_the_limits() -> None:
    table = root_tilings([2560, 1536], 1, S, H200)
    threads, serial = table[:, :2], table[:, 2:]
    assert len({tuple(row) for row in table.tolist()}) == len(table) > 200
    assert threads.prod(axis=1).max() <= 1024
    assert serial.prod(axis=1).max() <= 16
    assert set(threads[:, 1].tolist()) == {16, 32, 64}
    assert set(threads[:, 0].tolist()) == {1, 2, 4, 8, 16}
    assert 3 in serial[:, 1] and 3 not in serial[:, 0]


def test_no_more_than_three_dimensions_have_threads() -> None:
    table = root_tilings([8, 8, 8, 64], 3, S, H200)
    assert ((table[:, :4] > 1).sum(axis=1) <= 3).all()


def test_a_stage_without_dimensions_has_one_tiling() -> None:
    assert root_tilings([], 0, S, H200).shape == (1, 0)
    assert member_tilings([], 0, S, H200).shape == (1, 0)
    assert default_tiling([], 0, H200).tolist() == []


def test_member_tilings_leave_short_serial_loops() -> None:
    table = member_tilings([18, 34], 1, S, H200)
    assert (-(-18 // table[:, 0]) <= 16).all() and (-(-34 // table[:, 1]) <= 16).all()
    assert set(table[:, 1].tolist()) == {16, 32, 34}


@pytest.mark.parametrize(
    ("extent", "expected"),
    [
        (1536, [512, 384, 256, 192, 128, 96, 64, 48, 32]),
        (100, [100, 64, 48, 32]),
        (20, [20]),
        (10000, [432, 320, 224, 160]),
        (12288, [512, 384, 256, 192]),
        (65536, [512, 256, 176, 128, 96, 64, 48, 32]),
        (12289, [496, 256, 176, 128, 96, 64, 48, 32]),
    ],
)
def test_cpu_rows_are_split_into_equal_parts_of_whole_vectors(extent: int, expected: list[int]) -> None:
    assert cpu_lanes(extent, CPU) == expected


def test_cpu_lanes_have_one_point_each() -> None:
    table = root_tilings([64, 1536], 1, S, CPU)
    assert (table[:, 3] == 1).all()
    assert set(member_tilings([18, 262], 1, S, CPU)[:, 1].tolist()) == {262}
    assert len(member_tilings([18, 518], 1, S, CPU)) == 0  # more than a lane loop may have


def test_cpu_tiles_divide_their_dimension_where_possible() -> None:
    """112 rows are divided by blocks of 8 and 16, 2554 = 2 * 1277 rows only by 2."""
    cpu = get_target("cpu")
    for extent, cut_off in ((112, False), (2554, True)):
        table = root_tilings([extent, 512], 1, SearchSettings(), cpu)
        assert (extent % (table[:, 0] * table[:, 2]) != 0).any() == cut_off
