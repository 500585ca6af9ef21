"""Tile and block sizes on a GPU, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autosched.search.strategies.forma.fusion_groups import compute_tile, find_stencils
from autosched.search.strategies.forma.gpu_tiles import (
    active_occupancy,
    block_of_largest_tile,
    candidate_tiles,
    halvings,
    shared_bytes,
    threaded_dims,
)
from autosched.search.strategies.forma.group_tiling import group_tilings
from autosched.target import Target, get_target
from tests.search.forma import pipelines

H200 = get_target("h200")


def test_tiles_are_halved_along_each_dimension() -> None:
    assert list(halvings((4, 2))) == [(4, 2), (2, 2), (1, 2), (4, 1), (2, 1), (1, 1)]
    assert list(halvings(())) == [()]


def test_shared_memory_is_the_sum_of_all_tiles() -> None:
    """Section 2.1.1: (bx + 2) (by + 2) + bx (by + 2) elements."""
    tiles = [np.array([[18, 34], [10, 10]]), np.array([[18, 32], [10, 8]])]
    assert shared_bytes(tiles, [4, 4], 2).tolist() == [4 * (18 * 34 + 18 * 32), 4 * (100 + 80)]


def test_block_is_as_large_as_the_largest_tile() -> None:
    assert block_of_largest_tile(np.array([[16, 32], [8, 8]]), (2, 4)).tolist() == [[18, 36], [10, 12]]


def test_occupancy_counts_threads_with_a_point_of_the_result() -> None:
    """612 threads are 20 warps: 3 blocks of 64 warps; 100 KiB leave room for 2 blocks, 200 KiB for one."""
    threads, block = np.array([512] * 3), np.array([612] * 3)
    shared = np.array([1000, 100 << 10, 200 << 10])
    assert active_occupancy(H200, threads, block, shared).tolist() == [1536 / 2048, 1024 / 2048, 512 / 2048]


def test_dimensions_of_threads() -> None:
    func = pipelines.blur().funcs["blur_y"]
    assert threaded_dims(func, {"y": 2, "x": 2}) == ("y", "x")
    assert threaded_dims(func, {}) == ("y", "x")
    tiles, threads = candidate_tiles(func, ("y", "x"))
    assert tiles[0].tolist() == [32, 32] and len(tiles) == 36
    assert (tiles == threads).all()


def first(target: Target, *, copies: bool = True) -> tuple[list[int], str]:
    """Return the preferred tile sizes of Listing 1 with the reason why there are none."""
    dag = find_stencils(pipelines.blur())
    group, _ = compute_tile(dag, "blur_y", dag.in_memory)
    found = group_tilings(dag, group, target, copies=copies)
    return (found.params[0].tolist() if len(found.params) else []), found.reason


def test_preferred_tiling_of_listing_1() -> None:
    """Root threads y, x, points y, x, then the threads of the copy and of ``blur_x``, which cover their tiles."""
    assert first(H200) == ([16, 32, 1, 1, 18, 34, 18, 32], "")


def test_tiles_are_halved_until_shared_memory_suffices() -> None:
    """8 x 32 needs 4 (10 * 34 + 10 * 32) = 2640 bytes, 16 x 32 needs 4752."""
    small = replace(H200, name="small", shared_per_block_optin=4000, shared_per_sm=5000)
    assert first(small)[0][:2] == [8, 32]


def test_the_reason_names_the_shared_memory_of_the_least_tile() -> None:
    """One point needs 4 (3 * 3 + 3 * 1) bytes."""
    tiny = replace(H200, name="tiny", shared_per_block_optin=40, shared_per_sm=2000)
    assert first(tiny) == ([], "its tiles need 48 bytes of shared memory at least")


def test_without_copies_only_members_have_tiles() -> None:
    params, _ = first(H200, copies=False)
    assert params[:2] == [32, 16] or params == [16, 32, 1, 1, 18, 32]


def test_threads_compute_several_points_where_no_block_covers_the_largest_tile() -> None:
    """Section 2.1: three threads cannot cover the 3 x 3 tile of one point."""
    few = replace(H200, name="few", max_threads_per_block=8)
    params, reason = first(few)
    assert reason == "" and params[0] * params[1] == 8
    assert params[4] * params[5] <= 8  # of the copy, which has more points
