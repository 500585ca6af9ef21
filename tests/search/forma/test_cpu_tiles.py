"""Tile sizes on a CPU, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.search.strategies.forma.cpu_tiles import candidate_tiles, fits_l2, padded_bytes
from autosched.search.strategies.forma.fusion_groups import compute_tile, find_stencils
from autosched.search.strategies.forma.group_tiling import group_tilings
from autosched.target import get_target
from tests.search.forma import pipelines

CPU = replace(get_target("cpu"), multiprocessors=2, shared_per_block_optin=1 << 19)


@pytest.mark.parametrize(("element_bytes", "row"), [(4, 240), (8, 120), (2, 480), (1, 448)])
def test_rows_have_an_odd_number_of_cache_lines(element_bytes: int, row: int) -> None:
    func = pipelines.blur(1000, 2000).funcs["blur_y"]
    tiles = candidate_tiles(func, ["y"], "x", element_bytes, 512)
    assert tiles[0].tolist() == [64, row]
    lines = np.unique(tiles[:, 1]) * element_bytes // 64
    assert (lines % 2 == 1).all() and len(lines) >= 3


def test_rows_of_tiles_are_padded_to_whole_vectors() -> None:
    assert padded_bytes(np.array([[66, 242], [3, 5]]), (4,)).tolist() == [66 * 244 * 4, 3 * 5 * 4]
    assert padded_bytes(np.array([[66, 242]]), (4, 4)).tolist() == [66 * 244 * 8]
    assert padded_bytes(np.array([[7]]), (4,)).tolist() == [28]


def test_buffers_and_images_fit_the_cache_together() -> None:
    """Half of the 1 MiB of L2 is for buffers, all of it for buffers and the tiles of arrays in memory."""
    sizes = np.array([1 << 19, (1 << 19) + 1, 1 << 18, 1 << 19])
    images = np.array([1 << 19, 0, 1 << 20, (1 << 19) + 1])
    assert fits_l2(CPU, sizes, images).tolist() == [True, False, False, False]


def test_preferred_tiling_of_listing_1() -> None:
    """Threads and points of y and x, then the threads of ``blur_x``; the image is read in place."""
    dag = find_stencils(pipelines.blur(1000, 2000))
    group, _ = compute_tile(dag, "blur_y", dag.in_memory)
    found = group_tilings(dag, group, CPU)
    assert [location.func for location in found.sketch.locations] == ["blur_x"]
    assert found.params[0].tolist() == [1, 240, 64, 1, 1, 240]


def test_tiles_are_halved_until_they_fit() -> None:
    """``blur_x`` needs 63360 bytes for 64 x 240, too many; 64 x 112 overlaps less than 32 x 240, and both fit."""
    dag = find_stencils(pipelines.blur(1000, 2000))
    group, _ = compute_tile(dag, "blur_y", dag.in_memory)
    found = group_tilings(dag, group, replace(CPU, shared_per_block_optin=50_000))
    assert found.params[0].tolist() == [1, 112, 64, 1, 1, 112]
    assert [1, 240, 32, 1, 1, 240] in found.params.tolist()
    assert [1, 240, 64, 1, 1, 240] not in found.params.tolist()


def test_every_core_has_a_tile() -> None:
    dag = find_stencils(pipelines.blur(64, 240))
    group, _ = compute_tile(dag, "blur_y", dag.in_memory)
    y, x = group_tilings(dag, group, replace(CPU, multiprocessors=4)).params[0][[2, 1]].tolist()
    assert -(-64 // y) * -(-240 // x) >= 4
