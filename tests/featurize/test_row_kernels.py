"""Features of interleaved points and private producers, against counts of the code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel, described_points
from autosched.host import Host
from autosched.lower.program import lower
from autosched.measure.simulated.count import count_kernel
from autosched.schedule.types import Kernel, LoopKind, Schedule, StageTiling
from autosched.target import Target, cpu_target, get_target
from tests.lower.run_backends import traced
from tests.schedule.row_kernel_cases import bound_rows, row_kernel

H200 = get_target("h200")
CPU = cpu_target(Host(2, 16, 1 << 20, 32 << 20, 1 << 34, 2.5e9))
EVEN = bound_rows(16, 128)
KERNELS = {
    "in shared memory": row_kernel(EVEN, private=()),
    "in registers": row_kernel(EVEN),
    "partly in registers": row_kernel(EVEN, private=("shifted",)),
    "one row a block": row_kernel(EVEN, rows=1),
    "half a warp": row_kernel(EVEN, lanes=16),
}


def features(bound: BoundPipeline, found: Kernel, target: Target = H200, **options: bool) -> dict[str, Any]:
    """Return the features of a kernel by name, an array of stages each."""
    sketch, params = describe_kernel(bound, found)
    model = Featurizer(bound, target, **options).model(sketch)
    values = model.evaluate(np.array([(*params, *described_points(bound, found))], np.int64)).features[0]
    return {name: values[:, column] for name, column in INDEX.items()}


@pytest.mark.parametrize("name", KERNELS)
def test_counts_match_the_trace(name: str) -> None:
    program = lower(EVEN, Schedule.for_pipeline(EVEN, [KERNELS[name]]), vectors=False)
    trace = traced(EVEN, program)
    got = features(EVEN, KERNELS[name], amortised=False, every_warp=True, vectors=False)
    shared = np.array([s == "shared" for s in trace.space])
    moved, asked = trace.sectors / trace.blocks, trace.requests / trace.blocks
    assert got["num_global_mem_loads_per_block"].sum() == moved[~trace.is_store].sum()
    assert got["num_global_mem_stores_per_block"].sum() == moved[trace.is_store].sum()
    assert got["global_requests_per_block"].sum() == asked[~shared].sum()
    exchanged = got["shuffles_per_block"].sum()
    assert count_kernel(program.kernels[0]).total("shuffles") == exchanged
    assert got["num_warps_per_block"][0] == trace.warps / trace.blocks


def test_interleaved_points_are_coalesced() -> None:
    """32 neighbouring floats are four sectors; with contiguous points of a thread, they are as many as the lanes."""
    got = features(EVEN, KERNELS["in registers"], amortised=False, vectors=False)
    assert got["num_global_mem_stores_per_block"][0] == 4 * 16
    root = KERNELS["in registers"].roots[0]
    across = replace(KERNELS["in shared memory"], roots=(replace(root, tiling=_contiguous(root.tiling)),))
    assert features(EVEN, across, amortised=False, vectors=False)["num_global_mem_stores_per_block"][0] == 16 * 16


def _contiguous(t: StageTiling) -> StageTiling:
    serial = [p for p in t.loops if p.kind is LoopKind.SERIAL]
    return StageTiling(t.stage, (*(p for p in t.loops if p not in serial), *serial))


def test_registers_are_no_shared_memory() -> None:
    plain, private = (features(EVEN, KERNELS[name]) for name in ("in shared memory", "in registers"))
    assert private["shared_requests_per_block"].sum() < plain["shared_requests_per_block"].sum()
    assert private["working_set_at_thread"][0] - plain["working_set_at_thread"][0] == 2 * 4 * 4
    assert private["steps_per_block"][0] == plain["steps_per_block"][0] - 2


def test_invariants_are_counted_once_a_row() -> None:
    """Root and division: four special instructions each, once for a thread, in place of once for each of its points."""
    got = features(EVEN, KERNELS["in registers"])
    threads = 32 * 4
    assert got["special_operations_per_block"][0] == threads * 8
    root = KERNELS["in registers"].roots[0]
    across = replace(KERNELS["in shared memory"], roots=(replace(root, tiling=_contiguous(root.tiling)),))
    assert features(EVEN, across)["special_operations_per_block"][0] == threads * 4 * 8


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_built_from_its_sketch_is_the_same(name: str) -> None:
    for target in (H200, CPU):
        sketch, params = describe_kernel(EVEN, KERNELS[name])
        assert build_kernel(Featurizer(EVEN, target).model(sketch), np.array(params, np.int64)) == KERNELS[name]


@pytest.mark.parametrize("shape", [(1, 33), (13, 771), (5, 100)])
def test_uneven_rows_have_features(shape: tuple[int, int]) -> None:
    bound = bound_rows(*shape)
    for private in ((), ("a.staged", "shifted")):
        for values in features(bound, row_kernel(bound, private=private)).values():
            assert np.isfinite(values).all() and (values >= 0).all()
