"""Terms of PolyMage-GPU's cost, counted by hand for a blur, and dependence vectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, Var, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.schedule.types import Level, StageId
from autosched.search.strategies.polymage.cost_weights import V100_WEIGHTS, CostWeights
from autosched.search.strategies.polymage.dependence_vectors import has_constant_dependence_vectors
from autosched.search.strategies.polymage.group_terms import group_terms, memory_terms, residency_terms
from autosched.search.strategies.polymage.group_tiles import GroupTiles, Ints, group_tiles
from autosched.search.strategies.polymage.settings import PolymageSettings
from autosched.search.strategies.polymage.stage_resources import StageResources, measure_stages
from autosched.search.strategies.polymage.tile_table import tile_table, warp_tile_table
from autosched.target import Target, get_target

H200 = get_target("h200")
y, x = Var("y"), Var("x")
RESOURCES = StageResources({"producer": 20, "out": 30}, {"producer": 2e-8, "out": 1e-8})


def pair(offsets: str) -> tuple[BoundPipeline, KernelSketch]:
    """Return a producer and a consumer that reads it in one of several ways, the producer at BLOCK."""
    image, producer, out = Input("image", float32, 2), Func("producer"), Func("out")
    producer[y, x] = image[y, x] + image[y, x + 1] + image[y, x + 2]
    out[y, x] = {
        "stencil": lambda: producer[y, x] + producer[y + 1, x] + producer[y + 2, x],
        "half": lambda: producer[2 * y, 2 * x] + producer[2 * y + 1, 2 * x],
        "double": lambda: producer[y // 2, x // 2] + producer[y // 2 + 1, x // 2],
        "two scales": lambda: producer[y, x] + producer[2 * y, x],
        "transposed": lambda: producer[y, x] + producer[x, y],
        "skewed": lambda: producer[y + x, x],
        "constant": lambda: producer[3, x] + producer[5, x],
    }[offsets]()
    bound = bind(Pipeline([out.over(y=(0, 256), x=(0, 256))]), {"image": (600, 600)})
    stage = StageId("out", 0)
    return bound, KernelSketch((stage,), (ComputeLocation("producer", Level.BLOCK, stage),))


@pytest.mark.parametrize(
    ("offsets", "constant"),
    [
        ("stencil", True), ("half", True), ("double", True), ("constant", True), ("two scales", False),
        ("transposed", False), ("skewed", False),
    ],
)  # fmt: skip
def test_dependence_vectors_are_constant_after_alignment_and_scaling(offsets: str, constant: bool) -> None:
    bound, sketch = pair(offsets)
    assert has_constant_dependence_vectors(Featurizer(bound, H200).model(sketch)) is constant


WARP_TILE = np.array([[1, 32, 4, 2, 1, 32]], np.int64)
"""Lanes along x with 4 x 2 points: 4 rows of 64 points, for which the producer has 6 rows. There are 64 x 4 tiles."""
BLOCK_TILE = np.array([[8, 32, 2, 1, 8, 32]], np.int64)
"""Blocks of 8 x 32 threads with 2 x 1 points: 16 rows of 32 points, for which the producer has 18 rows."""


def tiles_of(params: Ints) -> GroupTiles:
    bound, sketch = pair("stencil")
    return group_tiles(Featurizer(bound, H200).model(sketch), params)


@pytest.mark.parametrize(("bytes_", "of_a_load"), [(32, 4), (128, 1)])
def test_transactions_are_those_of_a_warp_for_a_point_of_each_lane(bytes_: int, of_a_load: int) -> None:
    """Lines 14 to 17: the producer loads rows of 32 x 4 bytes three times, for 6 x 2 points of a lane; the root 8."""
    terms = memory_terms(tiles_of(WARP_TILE), RESOURCES, H200, bytes_)
    assert terms.transactions.tolist() == [of_a_load * 3 * 12 / 8]
    # A lane of the block's tile has ceil(18 / 8) points of the producer for 2 of the root.
    assert memory_terms(tiles_of(BLOCK_TILE), RESOURCES, H200, bytes_).transactions.tolist() == [of_a_load * 3 * 3 / 2]


def test_strided_loads_have_more_transactions() -> None:
    """Lanes that read every second element of a row span two transactions of 128 bytes."""
    bound, sketch = pair("half")
    alone = KernelSketch(sketch.stages)
    tiles = group_tiles(Featurizer(bound, H200).model(alone), np.array([[1, 32, 1, 1]], np.int64))
    resources = StageResources({"out": 30}, {"out": 1e-8})
    assert memory_terms(tiles, resources, H200, 128).transactions.tolist() == [2 * 2]


def test_memory_time_is_relative_to_computing() -> None:
    """Lines 25 to 28: bytes of a warp over its part of the bandwidth, over the seconds of 12 and 8 points."""
    terms = memory_terms(tiles_of(WARP_TILE), RESOURCES, H200, 32)
    rate = H200.dram_bytes_per_s * 32 / (H200.multiprocessors * 128)
    assert terms.memory_time[0] == pytest.approx(32 * (4 * 3 * 12) / rate / (12 * 2e-8 + 8 * 1e-8))


@pytest.mark.parametrize(("warps", "share"), [(1, 0.0), (4, 0.0), (4, 0.5), (8, 1.0)])
def test_occupancy_is_limited_by_shared_memory_and_registers(warps: int, share: float) -> None:
    """Lines 9 to 11 and 18 to 24."""
    terms = residency_terms(tiles_of(WARP_TILE), RESOURCES, H200, np.array(warps), np.array(share))
    shared = 6 * 64 * 4 * warps * (1 - share)
    blocks = H200.max_blocks_per_sm if shared == 0 else min(H200.shared_per_sm // shared, H200.max_blocks_per_sm)
    registers = 20 + 30 + share * 6 * 64 / 32
    resident = min(blocks * warps, H200.max_warps_per_sm, H200.registers_per_sm / registers / 32)
    assert terms.occupancy[0] == pytest.approx(resident / 64)
    assert terms.possible.all()


def test_warps_of_a_tile_of_a_block_count() -> None:
    terms = residency_terms(tiles_of(BLOCK_TILE), RESOURCES, H200, np.array(1), np.array(0.0))
    assert terms.occupancy[0] == pytest.approx(H200.registers_per_sm / 50 / 32 / 64)  # 8 warps of a block, 32 blocks


@pytest.mark.parametrize(("warps", "share", "blocks"), [(4, 0.0, 32), (16, 0.0, 9), (16, 0.5, 19), (4, 1.0, 32)])
def test_unallocated_shared_memory_is_that_beside_the_most_blocks(warps: int, share: float, blocks: int) -> None:
    """Lines 18, 29 and 30: 233,472 bytes have room for 9 blocks of 24,576 bytes."""
    assert H200.shared_per_sm == 233472
    terms = residency_terms(tiles_of(WARP_TILE), RESOURCES, H200, np.array(warps), np.array(share))
    shared = 6 * 64 * 4 * warps * (1 - share)
    assert terms.unallocated[0] == pytest.approx(1 - shared * blocks / 233472)


@pytest.mark.parametrize(("warps", "share"), [(1, 0.0), (4, 0.0), (4, 0.5), (8, 1.0)])
def test_unused_registers_are_those_of_no_resident_warp(warps: int, share: float) -> None:
    """Lines 11, 20, 31 and 32: a share of 384 elements is divided among 32 lanes."""
    terms = residency_terms(tiles_of(WARP_TILE), RESOURCES, H200, np.array(warps), np.array(share))
    registers = 50 + share * 384 / 32
    assert terms.unused[0] == pytest.approx(1 - registers * 64 * 32 * terms.occupancy[0] / H200.registers_per_sm)


def test_overlap_is_relative_to_the_tile_of_each_func() -> None:
    """Line 33: of 256 tiles each has 6 x 64 points of the producer, which has 258 x 256."""
    assert tiles_of(WARP_TILE).overlap[0] == pytest.approx(256 * 384 / (258 * 256) - 1)
    assert tiles_of(BLOCK_TILE).overlap[0] == pytest.approx(128 * 18 * 32 / (258 * 256) - 1)


@pytest.mark.parametrize(("points", "percent"), [(8, 0.8), (16, 0.4)])
def test_overlap_of_the_blur_of_section_3(points: int, percent: float) -> None:
    image, blurx, blury = Input("image", float32, 2), Func("blurx"), Func("blury")
    blurx[y, x] = image[y, x] + image[y + 1, x] + image[y + 2, x]
    blury[y, x] = blurx[y, x] + blurx[y, x + 1] + blurx[y, x + 2]
    bound = bind(Pipeline([blury.over(y=(0, 64), x=(0, 65536))]), {"image": (66, 65538)})
    stage = StageId("blury", 0)
    sketch = KernelSketch((stage,), (ComputeLocation("blurx", Level.BLOCK, stage),))
    model = Featurizer(bound, H200).model(sketch)
    tiles = group_tiles(model, np.array([[1, 32, 1, points, 1, 32]], np.int64))
    assert round(100 * tiles.overlap[0], 1) == percent


def test_extra_blocks_are_those_of_the_last_wave_of_the_resident_blocks() -> None:
    """Line 34: of 256 tiles a block has 1, 2 or 16; the occupancy of 40 warps allows 20 and 2 of the latter at once."""
    for warps, at_once in ((1, 32), (2, 20), (16, 2)):
        terms = residency_terms(tiles_of(WARP_TILE), RESOURCES, H200, np.array(warps), np.array(0.0))
        assert int(terms.occupancy[0] * 64 // warps) == at_once
        assert terms.extra_blocks[0] == pytest.approx((256 / warps / 132) % at_once)
    few = replace(H200, multiprocessors=3)
    terms = residency_terms(tiles_of(WARP_TILE), RESOURCES, few, np.array(16), np.array(0.0))
    assert terms.extra_blocks[0] == pytest.approx(16 / 3 % 2)  # 5 1/3 blocks, two waves of 2


def test_groups_that_do_not_fit_cost_infinity() -> None:
    tiles = tiles_of(WARP_TILE)

    def is_finite(
        target: Target = H200, resources: StageResources = RESOURCES, warps: int = 4, share: float = 0
    ) -> bool:
        terms = group_terms(tiles, resources, target, 32, warps, share)
        return bool(np.isfinite(terms.cost(V100_WEIGHTS)).all())

    assert is_finite()
    small = replace(H200, shared_per_block_optin=6 * 64 * 4 * 4 - 1)
    assert not is_finite(small)
    assert is_finite(small, share=0.1)
    assert not is_finite(resources=StageResources({"producer": 200, "out": 100}, RESOURCES.seconds))
    assert is_finite(resources=StageResources({"producer": 150, "out": 100}, RESOURCES.seconds))
    # Half of 384 elements are 6 registers of a lane.
    assert not is_finite(resources=StageResources({"producer": 150, "out": 100}, RESOURCES.seconds), share=0.5)
    assert not is_finite(warps=64)


def test_tiles_of_one_point_a_lane_have_no_share_in_registers() -> None:
    """Algorithm 1, line 15: a split dimension has more than one point."""
    tiles = tiles_of(np.array([[1, 32, 1, 1, 1, 32], [1, 32, 4, 1, 1, 32], [1, 32, 4, 2, 1, 32]], np.int64))
    assert tiles.split.tolist() == [-1, 0, 1]
    possible = residency_terms(tiles, RESOURCES, H200, np.array([[[1], [2]]]), np.array([[[0.0, 0.5]]])).possible
    assert possible.shape == (3, 2, 2)
    assert possible[0].tolist() == [[True, False], [True, False]]
    assert possible[1:].all()


def test_each_weight_counts_one_term() -> None:
    terms = group_terms(tiles_of(WARP_TILE), RESOURCES, H200, 32, 4, 0.5)
    columns = terms.columns()
    assert columns.shape == (1, 7)
    assert len({*columns[0].round(9).tolist()}) == 7
    for k in range(7):
        weights = CostWeights(*(float(n == k) for n in range(7)))
        assert terms.cost(weights) == pytest.approx(columns[:, k])
    assert terms.cost(V100_WEIGHTS) == pytest.approx(columns @ np.array(V100_WEIGHTS))


def test_tiles_are_powers_of_two_and_blocks_whole_warps() -> None:
    table = tile_table([100, 300], 1, PolymageSettings(), H200)
    threads, points = table[:, :2], table[:, 2:]
    assert set(points.ravel().tolist()) == {1, 2, 4, 8, 16, 32}
    assert (threads.prod(axis=1) % 32 == 0).all()
    assert (threads.prod(axis=1) <= H200.max_threads_per_block).all()


def test_lanes_are_those_of_one_warp() -> None:
    table = warp_tile_table([100, 300], [1, 0], PolymageSettings())
    lanes, points = table[:, :2], table[:, 2:]
    assert {*map(tuple, lanes.tolist())} == {(1, 32), (2, 16), (4, 8)}
    assert set(points.ravel().tolist()) == {1, 2, 4, 8, 16, 32}
    assert {*map(tuple, warp_tile_table([300], [0], PolymageSettings())[:, :1].tolist())} == {(32,)}


def test_resources_of_stages_grow_with_their_work() -> None:
    bound, _ = pair("stencil")
    resources = measure_stages(bound, H200, frozenset())
    assert resources.registers.keys() == resources.seconds.keys() == {"producer", "out"}
    assert all(0 < s < 1e-5 for s in resources.seconds.values())
    if not resources.problem:
        assert all(8 <= r <= 255 for r in resources.registers.values())
