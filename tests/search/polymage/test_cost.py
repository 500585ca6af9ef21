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
from autosched.search.strategies.polymage.dependence_vectors import has_constant_dependence_vectors
from autosched.search.strategies.polymage.group_terms import group_terms
from autosched.search.strategies.polymage.settings import CostWeights, PolymageSettings
from autosched.search.strategies.polymage.stage_resources import StageResources, measure_stages
from autosched.search.strategies.polymage.tile_table import tile_table
from autosched.target import get_target

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


def test_terms_of_a_blur() -> None:
    """Blocks of 8 x 32 threads with 2 x 1 points; the producer has 18 rows of 32 points in each tile of 16 rows."""
    bound, sketch = pair("stencil")
    model = Featurizer(bound, H200).model(sketch)
    params = np.array([[8, 32, 2, 1, 8, 32]], np.int64)
    terms = group_terms(model, params, RESOURCES, H200, 32, 0.0)
    iterations = 3  # ceil(18 / 8) rows of a thread of the producer
    assert terms.transactions.tolist() == [3 * iterations * 32 * 4 / 32]  # three loads of a row of 128 bytes
    shared = 18 * 32 * 4
    resident = min(H200.shared_per_sm // shared, H200.max_blocks_per_sm)
    occupancy = min(resident * 8, H200.registers_per_sm / 50 / 32, H200.max_warps_per_sm) / H200.max_warps_per_sm
    assert terms.occupancy[0] == pytest.approx(occupancy)
    assert terms.unallocated[0] == pytest.approx(1 - shared * resident / H200.shared_per_sm)
    assert terms.unused[0] == pytest.approx(1 - 50 * H200.max_warps_per_sm * 32 * occupancy / H200.registers_per_sm)
    points = 16 * 32 + 258 * 256 / 128  # of the root, and a block's share of the producer
    assert terms.overlap[0] == pytest.approx(1 - points / (16 * 32 + 18 * 32))
    assert terms.extra_blocks[0] == pytest.approx((128 / H200.multiprocessors) % resident)
    rate = H200.dram_bytes_per_s * 32 / (H200.multiprocessors * 128)
    compute = 3 * 2e-8 + 2 * 1e-8
    assert terms.memory_time[0] == pytest.approx(32 * terms.transactions[0] / rate / compute)
    by_l1 = group_terms(model, params, RESOURCES, H200, 128, 0.0)
    assert by_l1.transactions.tolist() == [3 * iterations]


def test_groups_that_do_not_fit_cost_infinity() -> None:
    bound, sketch = pair("stencil")
    model = Featurizer(bound, H200).model(sketch)
    params = np.array([[8, 32, 2, 1, 8, 32]], np.int64)
    small = replace(H200, shared_per_block_optin=18 * 32 * 4 - 1)
    assert np.isinf(group_terms(model, params, RESOURCES, small, 32, 0.0).cost(PolymageSettings())).all()
    many = StageResources({"producer": 200, "out": 100}, RESOURCES.seconds)
    assert np.isinf(group_terms(model, params, many, H200, 32, 0.0).cost(PolymageSettings())).all()


def test_a_share_in_registers_takes_it_from_shared_memory() -> None:
    bound, sketch = pair("stencil")
    model = Featurizer(bound, H200).model(sketch)
    params = np.array([[8, 32, 2, 1, 8, 32]], np.int64)
    none, half = (group_terms(model, params, RESOURCES, H200, 32, share) for share in (0.0, 0.5))
    assert half.unallocated[0] >= none.unallocated[0]
    registers = 50 + 0.5 * 18 * 32 * 4 / 256 / 4
    used = registers * H200.max_warps_per_sm * 32 * half.occupancy[0] / H200.registers_per_sm
    assert half.unused[0] == pytest.approx(1 - used)


def test_each_weight_counts_one_term() -> None:
    bound, sketch = pair("stencil")
    model = Featurizer(bound, H200).model(sketch)
    terms = group_terms(model, np.array([[8, 32, 2, 1, 8, 32]], np.int64), RESOURCES, H200, 32, 0.0)
    expected = [
        terms.transactions, 1 - terms.occupancy, terms.memory_time, terms.unallocated, terms.unused, terms.overlap,
        terms.extra_blocks,
    ]  # fmt: skip
    for k, term in enumerate(expected):
        weights = CostWeights(*(float(n == k) for n in range(7)))
        assert terms.cost(PolymageSettings(weights=weights)) == pytest.approx(term)


def test_tiles_are_powers_of_two_and_blocks_whole_warps() -> None:
    table = tile_table([100, 300], 1, PolymageSettings(), H200)
    threads, points = table[:, :2], table[:, 2:]
    assert set(points.ravel().tolist()) == {1, 2, 4, 8, 16, 32}
    assert (threads.prod(axis=1) % 32 == 0).all()
    assert (threads.prod(axis=1) <= H200.max_threads_per_block).all()


def test_resources_of_stages_grow_with_their_work() -> None:
    bound, _ = pair("stencil")
    resources = measure_stages(bound, H200, frozenset())
    assert resources.registers.keys() == resources.seconds.keys() == {"producer", "out"}
    assert all(0 < s < 1e-5 for s in resources.seconds.values())
    if not resources.problem:
        assert all(8 <= r <= 255 for r in resources.registers.values())
