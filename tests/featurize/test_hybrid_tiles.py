"""Features of kernels with hybrid tiles: equal to the emulator's counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, Var, float32, float64
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.cuda import print_cuda
from autosched.errors import ScheduleError
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.scaling.step_scaling import scaling_for
from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.lower.program import lower
from autosched.runtime.emulator.kernel_text import read_kernel_text
from autosched.schedule.kernel.memory_layout import shared_layout
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import Kernel
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.target import get_target
from tests.lower.hybrid_cases import hybrid, rows, rows_kernel
from tests.lower.run_backends import traced
from tests.schedule.building import block, kernel, member, root, schedule

H200 = get_target("h200")
y, x = Var("y"), Var("x")


def features_of(bound: BoundPipeline, one: Kernel) -> np.ndarray:
    """Return the features as the emulator counts, ``float64[rows, features]``."""
    scaling, whole = scaling_for(bound, one) or pytest.fail("no scaling")
    sketch, params = describe_kernel(bound, whole)
    model = Featurizer(bound, H200, amortised=False, every_warp=True).model(sketch)
    evaluation = model.tables.evaluate([model], [np.array([params], np.int64)])
    return scaling.repeated(evaluation).features[0]


def counts_of(bound: BoundPipeline, one: Kernel) -> dict[str, float]:
    """Return the emulator's counts of shared memory and shuffles, per tile."""
    program = lower(bound, schedule(bound, one))
    (ir,) = program.kernels
    trace = traced(bound, program)
    sites = read_kernel_text(print_cuda(ir).body).sites
    shared = {
        store: [n for n, s in sites.items() if s.space == "shared" and s.store is store] for store in (False, True)
    }
    shuffles = trace.shuffles / ir.threads
    requests = sum(trace.requests[shared[False] + shared[True]])
    return {
        "shuffles_per_block": shuffles / ir.blocks,
        "num_shared_mem_loads_per_block": (sum(trace.wavefronts[shared[False]]) + shuffles) / ir.blocks,
        "num_shared_mem_stores_per_block": sum(trace.wavefronts[shared[True]]) / ir.blocks,
        "shared_requests_per_block": (requests + shuffles) / ir.blocks,
    }


def assert_features_are_counts(bound: BoundPipeline, one: Kernel) -> None:
    features, counts = features_of(bound, one), counts_of(bound, one)
    assert {name: features[:, INDEX[name]].sum() for name in counts} == pytest.approx(counts)


@pytest.mark.parametrize("warps", [1, 2])
@pytest.mark.parametrize("iterations", [1, 4, 8, 9])
def test_features_of_rows_are_counts(iterations: int, warps: int) -> None:
    bound = rows(1024)
    assert_features_are_counts(bound, rows_kernel(bound, iterations, 8, warps))


def boxes(dtype: object, lanes: str, dim: str, iterations: int) -> tuple[BoundPipeline, Kernel]:
    """Return two stencils over tiles of 8 x 32 points without boundaries."""
    img, f, g, out = Input("img", dtype, 2), Func("f"), Func("g"), Func("out")
    f[y, x] = img[y, x] + img[y, x + 1]
    g[y, x] = f[y, x] + f[y + 1, x + 2] - f[y + 2, x]
    out[y, x] = g[y, x] + g[y, x + 3] * g[y + 1, x + 1]
    bound = bind(Pipeline(out.over(y=(0, 16), x=(0, 64)), name="boxes"), {"img": (19, 70)})
    ty, tx = (int(p.split("=")[1]) for p in reversed(lanes.split()))

    def steps(height: int, width: int) -> str:
        return f"sy={-(-height // ty)} sx={-(-width // tx)} {lanes}"

    at = block("out", 2)
    producers = [member(at, "yx", f=steps(11, 37)), member(at, "yx", g=steps(9, 35))]
    tiles = [hybrid(p, dim, iterations) for p in producers]
    return bound, kernel(bound, [root("out", f"by=2 bx=2 {steps(8, 32)}")], tiles)


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("dim", ["x", "y"])
@pytest.mark.parametrize("lanes", ["tx=16 ty=2", "tx=8 ty=4"])
def test_features_of_boxes_are_counts(lanes: str, dim: str, dtype: object) -> None:
    for iterations in (1, 2):
        assert_features_are_counts(*boxes(dtype, lanes, dim, iterations))


def test_occupancy_follows_from_the_part_in_shared_memory() -> None:
    bound = rows(8192, 64)
    small = replace(H200, shared_per_sm=64 * 1024)
    whole, half = (rows_kernel(bound, n, 16, 4) for n in (0, 8))
    found = [evaluated(Featurizer(bound, small), k).batch_evaluation.features[0] for k in (whole, half)]
    bytes_ = [4 * shared_layout(plan_kernel(bound, k)).total_bytes for k in (whole, half)]
    for features, used in zip(found, bytes_, strict=True):
        resident = small.shared_per_sm // (used + small.reserved_shared_per_block)
        assert features[0, INDEX["resident_blocks"]] == 4 * min(resident, 16)
        assert features[0, INDEX["shared_mem_occupancy"]] == pytest.approx(used / small.shared_per_block_optin)
    assert found[1][0, INDEX["working_set_at_thread"]] == found[0][0, INDEX["working_set_at_thread"]] + 32


def test_tiles_without_shared_memory_have_no_barrier() -> None:
    bound = rows()
    steps = [features_of(bound, rows_kernel(bound, n, 16))[0, INDEX["steps_per_block"]] for n in (8, 17)]
    assert steps[0] == steps[1] + 1


def test_sketches_describe_whole_tiles_alone() -> None:
    bound = rows()
    with pytest.raises(ScheduleError, match="blurx has a hybrid tile, which a sketch cannot describe"):
        describe_kernel(bound, rows_kernel(bound, 8))
