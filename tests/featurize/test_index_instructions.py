"""Index instructions, boundary blocks and distinct sectors, against counts of lowered code."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, cast, clamp, float32, int32, select
from autosched.analysis.bind import bind
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.lang.expr import Expr
from autosched.schedule.types import StageId
from tests.featurize.emulator_counts import APPS, Counted, counted
from tests.featurize.random_kernels import H200

y, x = Var("y"), Var("x")
A, B = Input("a", float32, 2), Input("b", float32, 2)
WHICH = Input("which", float32, 1)
SIZES = {"a": (256, 256), "b": (256, 256), "which": (128,)}


def kernels() -> list[Counted]:
    return list(itertools.chain.from_iterable(counted(app) for app in APPS))


def features_of(
    value: Expr, threads: tuple[int, int] = (4, 32), serial: tuple[int, int] = (1, 1), *, added: bool = False
) -> dict[str, float]:
    """Return the features of a kernel of one Func, summed over its stages; ``added`` sums the value up."""
    out = Func("out")
    if added:
        out[y, x] = 0.0
        out[y, x] += value
    else:
        out[y, x] = value
    pipeline = Pipeline([out.over(y=(0, 128), x=(0, 128))])
    bound = bind(pipeline, {i.name: SIZES[i.name] for i in pipeline.inputs})
    stages = tuple(StageId("out", s.number) for s in bound.funcs["out"].stages)
    model = Featurizer(bound, H200).model(KernelSketch(stages))
    found = model.evaluate(np.array([[*threads, *serial]], np.int64)).features[0].sum(axis=0)
    return {n: float(found[k]) for n, k in INDEX.items()}


def test_most_integer_instructions_match_the_code() -> None:
    ratios = [
        (k.summed("index_instructions_per_block") + k.summed("integer_instructions_per_block"))
        / k.work.total("integer")
        for k in kernels()
    ]
    assert len(ratios) > 50
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    assert 0.9 < low <= middle <= high < 1.15
    assert np.mean(np.abs(np.log(ratios)) < np.log(2)) > 0.8


def test_most_boundary_blocks_match_the_code() -> None:
    errors = [abs(float(k.features[0, INDEX["border_share"]]) - k.border_share) for k in kernels()]
    assert np.mean(np.array(errors) < 0.01) > 0.75


def test_distinct_sectors_of_half_of_the_kernels_match_the_code() -> None:
    """The other half updates arrays in place or has data-dependent loads."""
    loads = [(k.summed("global_sectors_of_block"), sum(b.load_bytes for b in k.work.buffers) / 32) for k in kernels()]
    ratios = [mine / true for mine, true in loads if true]
    assert np.mean(np.abs(np.log(np.maximum(ratios, 1e-9))) < np.log(1.25)) > 0.5


def test_an_address_is_computed_once_for_all_points_of_an_unrolled_tile() -> None:
    one, two = (features_of(A[y, x] * 2.0, serial=(1, n)) for n in (1, 2))
    # a warp's beginning; two indices, as rows differ in length, of two loops over blocks and two over threads each;
    # their addresses
    assert one["index_instructions_per_block"] == 4 * (12 + 2 * 4 + 2)
    assert two["index_instructions_per_block"] == one["index_instructions_per_block"]


def test_neighbours_share_an_address() -> None:
    one, three = (features_of(v, serial=(1, 2)) for v in (A[y, x] + 1.0, A[y, x] + A[y, x + 1] + A[y + 1, x]))
    assert one["index_instructions_per_block"] == three["index_instructions_per_block"]


def test_points_along_a_data_dependent_row_share_its_index() -> None:
    value = A[clamp(cast(int32, WHICH[y]), 0, 255), x]
    one, along, across = (
        features_of(value, serial=s)["index_instructions_per_block"] for s in ((1, 1), (1, 4), (4, 1))
    )
    assert along <= one < across


def test_a_rolled_loop_computes_its_address_in_each_iteration() -> None:
    k = RDom("k", k=100)
    short, long = (features_of(A[y, x + (k.k if n else 0)] * B[y, k.k], added=True) for n in (False, True))
    assert short["looped_groups_per_thread"] == long["looped_groups_per_thread"] == 100 / 4 + 1  # four loads together
    # for each warp and iteration: five terms and an address instead of those once
    assert long["index_instructions_per_block"] - short["index_instructions_per_block"] == 4 * (100 * 6 - 5)


def test_short_loops_are_unrolled_by_the_compiler() -> None:
    k = RDom("k", k=8)
    assert features_of(A[y, x + k.k], added=True)["looped_groups_per_thread"] == 2  # stages of one each


def test_clamps_cost_only_in_boundary_blocks() -> None:
    plain, clamped = (features_of(A[row, x], (8, 32)) for row in (y, clamp(y - 8, 0, 100)))
    assert plain["border_share"] == 0
    assert clamped["border_share"] == pytest.approx(2 / 16)
    more = clamped["index_instructions_per_block"] - plain["index_instructions_per_block"]
    assert more == pytest.approx(8 * 3 * 2 / 16)  # warps; minimum, maximum and the sum that takes it in; share


def test_selects_constant_in_the_interior_cost_only_in_boundary_blocks() -> None:
    read = A[clamp(y - 8, 0, 100), x]
    plain, chosen = (features_of(v, (8, 32)) for v in (read, select((y >= 8) & (y < 120), read, 0.0)))
    more = chosen["integer_instructions_per_block"] - plain["integer_instructions_per_block"]
    assert more == pytest.approx(8 * 4 * chosen["border_share"])  # warps; two comparisons, their conjunction, selection


def test_a_multiply_add_is_one_instruction() -> None:
    apart, fused = (features_of(v)["float_instructions_per_block"] for v in (A[y, x] + B[y, x], A[y, x] * 3.0 + 1.0))
    assert apart == fused == 4  # one for each warp
    assert features_of((A[y, x] + 1.0) * B[y, x])["float_instructions_per_block"] == 8


def test_boundary_blocks_store_elements() -> None:
    found = features_of(A[y, x], (1, 30), (1, 4))
    assert found["num_global_mem_stores_per_block"] == 15  # 480 bytes
    assert found["global_stores_per_border_block"] == 4 * 15
    whole = features_of(A[y, x], (1, 32), (1, 4))
    assert whole["global_stores_per_border_block"] == whole["num_global_mem_stores_per_block"] == 16
    assert whole["global_requests_per_border_block"] == whole["global_requests_per_block"] == 2


def test_bytes_of_inputs_differ_from_those_between_kernels() -> None:
    found = features_of(A[y, x] + B[y, x])
    assert found["unique_global_bytes_read_by_kernel"] == 2 * 128 * 128 * 4
    assert found["unique_input_bytes_read_by_kernel"] == found["unique_global_bytes_read_by_kernel"]


def test_a_tile_that_does_not_divide_the_domain_guards_its_last_block() -> None:
    found = features_of(A[y, x], (8, 30), (1, 1))
    assert found["border_share"] == pytest.approx(1 / 5)


def test_rows_of_a_tile_touch_sectors_one_by_one() -> None:
    assert features_of(A[y, x], (4, 32), (1, 1))["global_sectors_of_block"] == 4 * 4
    columns = features_of(A[x, y], (4, 32), (1, 1))["global_sectors_of_block"]
    assert 32 <= columns <= 2 * 32
    both = features_of(A[y, x] + B[y, x], (4, 32), (1, 1))["global_sectors_of_block"]
    assert both == 2 * 4 * 4
