"""Tile sizes and their bounds, compared with examples computed by hand and with a plain enumeration."""

from __future__ import annotations

import itertools

import pytest

from autosched.search.strategies.sioutas.tile_sizes import Role, dim_roles, enumerate_tilings, tile_bounds, tile_sizes
from autosched.target import get_target

T, S, B = Role.THREADS, Role.SERIAL, Role.BLOCKS


@pytest.mark.parametrize(
    ("extents", "expected"),
    [
        ((1536, 2560), (T, T)),
        ((3, 1536, 2560), (S, T, T)),
        ((1536, 2560, 3), (T, T, S)),  # a short innermost dimension is not tiled
        ((4, 112, 112, 16), (S, T, T, T)),  # the innermost dimension from 9 points on
        ((17, 16, 100), (T, S, T)),  # others from 17 points on
        ((12, 100), (T, T)),  # fewer than two otherwise: from 9 points on
        ((3, 100), (B, T)),  # beside one tiled dimension there are blocks only
        ((5, 5), (B, T)),  # all short: the longest, of equal ones the innermost
        ((64, 64, 64, 64), (B, T, T, T)),  # three at most, of equal ones the inner; a long one has blocks
        ((128, 64, 100, 200), (T, B, T, T)),
        ((16, 64, 100, 200), (S, T, T, T)),
        ((), ()),
    ],
)
def test_three_dimensions_at_most_have_threads(extents: tuple[int, ...], expected: tuple[Role, ...]) -> None:
    assert dim_roles(extents) == expected


@pytest.mark.parametrize(
    ("extent", "tiled", "itemsize", "expected"),
    [
        (4096, 1, 4, (8, 4096)),
        (1536, 2, 1, (8, 48)),  # 1536 / 32
        (1536, 2, 4, (8, 32)),  # 128 bytes
        (2560, 3, 1, (8, 20)),  # 2560 / 128
        (2560, 3, 4, (8, 16)),  # 64 bytes
        (1024, 3, 4, (8, 8)),
        (1023, 3, 1, (8, 64)),  # B / 2 below 1024
        (65, 2, 1, (8, 32)),
        (64, 2, 1, (1, 32)),  # no lower bound up to 64
        (1, 1, 4, (1, 1)),
    ],
)
def test_bounds(extent: int, tiled: int, itemsize: int, expected: tuple[int, int]) -> None:
    assert tile_bounds(extent, tiled, itemsize) == expected


def test_tile_sizes_of_grouping_and_of_the_final_pass() -> None:
    assert tile_sizes(96, 2, powers=True, most=1024).tolist() == [8, 16, 32]
    assert tile_sizes(96, 2, powers=False, most=1024).tolist() == list(range(8, 49, 2))
    assert tile_sizes(50, 1, powers=True, most=1024).tolist() == [1, 2, 4, 8, 16]
    assert tile_sizes(50, 1, powers=False, most=1024).tolist() == [1, *range(2, 26, 2)]
    assert tile_sizes(1 << 40, 1, powers=True, most=32).tolist() == [8, 16, 32]
    assert tile_sizes(1 << 40, 1, powers=False, most=32).tolist() == list(range(8, 33, 2))


def test_rows_hold_threads_then_serial_points() -> None:
    table = enumerate_tilings((66, 100, 3), get_target("h200"), powers=True, itemsize=8)
    assert table.tolist() == [[a, b, 1, 1, 1, 3] for a in (8, 16) for b in (8, 16)]


@pytest.mark.parametrize("extents", [(200, 100), (90, 300, 70)])
def test_the_table_is_every_combination_that_a_block_can_have(extents: tuple[int, ...]) -> None:
    choices = [range(8, min(n // 2, 128 if len(extents) == 2 else 64) + 1, 2) for n in extents]
    expected = {row for row in itertools.product(*choices) if _product(row) <= 1024}
    table = enumerate_tilings(extents, get_target("h200"), powers=False)
    assert {tuple(row[: len(extents)]) for row in table.tolist()} == expected
    assert len(table) == len(expected)
    assert (table[:, len(extents) :] == 1).all()


def test_a_scalar_has_one_tiling() -> None:
    assert enumerate_tilings((), get_target("h200"), powers=False).shape == (1, 0)


def _product(row: tuple[int, ...]) -> int:
    result = 1
    for n in row:
        result *= n
    return result
