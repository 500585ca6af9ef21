"""Producers per reduction step: features against counts of lowered code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel, described_points
from autosched.lower.program import lower
from autosched.measure.simulated.count import count_kernel
from autosched.measure.simulated.work import KernelWork
from autosched.schedule.types import Kernel, Level, Schedule, StageId
from tests.featurize.random_kernels import H200
from tests.schedule.weighted_sum import one_kernel, weighted, weights

SUMS = StageId("total", 1)
PLACES = {  # loops inside a thread that enclose the fused producers, and their points
    "each term": (1, "sy=2"),
    "each row of a term": (2, ""),
    "each point of a term": (3, ""),
}
ROWS, COLUMNS, TERMS, PARTS = 48, 64, 32, 5
"""Sizes that tiles divide, so that all blocks are equal, and terms that groups of four iterations divide."""


def whole(terms: int = TERMS) -> BoundPipeline:
    return weighted(terms, PARTS, ROWS, COLUMNS)


def kernel_at(bound: BoundPipeline, place: str, parts: int = PARTS) -> Kernel:
    depth, points = PLACES[place]
    return one_kernel(bound, f"rr.k={TERMS} sy=2 sx=4", weights(depth, points, parts=parts)).kernels[0]


def found_and_counted(bound: BoundPipeline, kernel: Kernel) -> tuple[dict[str, dict[str, float]], KernelWork]:
    """Return the features of each stage, and the counts of the kernel's code."""
    sketch, params = describe_kernel(bound, kernel)
    model = Featurizer(bound, H200).model(sketch)
    rows = model.evaluate(np.array([(*params, *described_points(bound, kernel))], np.int64)).features[0]
    (code,) = lower(bound, Schedule.for_pipeline(bound, [kernel])).kernels
    by_stage = {str(s): {n: float(row[k]) for n, k in INDEX.items()} for s, row in zip(model.rows, rows, strict=True)}
    return by_stage, count_kernel(code)


@pytest.mark.parametrize("place", PLACES)
def test_a_sketch_and_its_kernel_are_inverse(place: str) -> None:
    bound = whole()
    kernel = kernel_at(bound, place)
    sketch, params = describe_kernel(bound, kernel)
    depth, _ = PLACES[place]
    assert {(s.enclosing, s.each_term) for s in sketch.locations} == {(depth - 1, depth == 1)}
    assert build_kernel(Featurizer(bound, H200).model(sketch), np.array(params, np.int64)) == kernel


@pytest.mark.parametrize("place", PLACES)
def test_operations_and_loads_match_the_code(place: str) -> None:
    bound = whole()
    found, counted = found_and_counted(bound, kernel_at(bound, place))
    evaluations = {"each term": 2, "each row of a term": 2, "each point of a term": 8}[place]
    assert found["dot.1"]["points_computed_per_thread"] == evaluations * TERMS * PARTS
    instructions = sum(f["float_instructions_per_block"] for f in found.values())
    assert instructions == pytest.approx(counted.total("fp32"), rel=0.1)
    rounds = "global_rounds_per_thread"
    assert found["dot.1"][rounds] == found["total.1"][rounds] == counted.total("chain_global")


@pytest.mark.parametrize(("parts", "more"), [(5, 1), (200, 4)])
def test_loops_of_a_sum_run_once_per_term_or_per_point(parts: int, more: int) -> None:
    """Unrolled sums are equal at the four columns of a row, and compilers merge them."""
    bound = weighted(TERMS, parts, ROWS, COLUMNS)
    kernels = [kernel_at(bound, place, parts) for place in ("each term", "each point of a term")]
    (once, few), (often, many) = (found_and_counted(bound, k) for k in kernels)
    operations = "float_operations_per_block"
    assert often["dot.1"][operations] == more * once["dot.1"][operations]
    assert (many.total("fp32") > 3 * few.total("fp32")) == (more > 1)


@pytest.mark.parametrize("terms", [TERMS, 4])
def test_a_rolled_loop_inside_the_reduction_repeats_shared_loads(terms: int) -> None:
    bound = weighted(terms, 200, ROWS, COLUMNS)
    kernel = one_kernel(bound, f"rr.k={terms} sy=2 sx=4", weights(1, "sy=2", parts=200)).kernels[0]
    sketch, params = describe_kernel(bound, kernel)
    model = Featurizer(bound, H200, vectors=True).model(sketch)
    features = model.evaluate(np.array([params], np.int64)).features[0].sum(axis=0)
    (code,) = lower(bound, Schedule.for_pipeline(bound, [kernel])).kernels
    counted = count_kernel(code)
    requests = counted.total("load_requests") + counted.total("store_requests")
    assert features[INDEX["global_requests_per_block"]] == pytest.approx(requests)
    assert features[INDEX["num_global_mem_loads_per_block"]] == pytest.approx(counted.total("load_sectors"))


@pytest.mark.parametrize("terms", [TERMS, 3])
def test_one_point_per_thread_has_equal_loops_inside_its_points(terms: int) -> None:
    """Without loops over points both locations are equal."""
    bound = whole(terms)
    both = [
        KernelSketch(
            (StageId("total"), SUMS),
            tuple(
                ComputeLocation(f, Level.THREAD, SUMS, enclosing, each_term=not enclosing) for f in ("dot", "weight")
            ),
        )
        for enclosing in (0, 1)
    ]
    featurizer, params = Featurizer(bound, H200), np.array([[4, 8, 1, 1]], np.int64)
    one, other = (featurizer.model(s).evaluate(params).features for s in both)
    np.testing.assert_array_equal(one, other)
    kernels = [build_kernel(featurizer.model(s), params[0]) for s in both]
    assert kernels[0] == kernels[1]


def test_per_reduction_step_is_part_of_a_sketch() -> None:
    location = ComputeLocation("dot", Level.THREAD, SUMS)
    outside, inside = (KernelSketch((SUMS,), (s,)) for s in (location, location._replace(each_term=True)))
    assert outside != inside and not location.in_terms
    assert replace(inside, locations=(location,)) == outside
