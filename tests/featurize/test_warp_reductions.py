"""Features of warp reductions, against counts of the code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.lane_loops import LaneLoop, add_lane_loops
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.sketch import thread_order
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel, described_points
from autosched.lower.program import lower
from autosched.measure.simulated.count import count_kernel
from autosched.schedule.kernel.warp_reduction import warp_lane_count
from autosched.schedule.types import Schedule, StageId
from autosched.target import get_target
from tests.lower.run_backends import traced
from tests.schedule.building import kernel, root, schedule
from tests.schedule.test_validate_warp_reductions import GOOD
from tests.schedule.warp_reduction_cases import at_root, in_block, rows_of, twice

H200 = get_target("h200")
EVEN, TWICE, DOUBLES = rows_of((64, 256)), bind(twice(), {"a": (64, 256)}), rows_of((64, 256), "max", "float64")
CASES: dict[str, tuple[BoundPipeline, Schedule]] = {
    "whole warps": (EVEN, at_root(EVEN, "by=16 ty=4", "by=16 rr.k=8 tr.k=32 ty=4")),
    "groups": (EVEN, at_root(EVEN, "by=8 ty=8", "by=8 rr.k=32 tr.k=8 ty=8")),
    "neighbours far apart": (EVEN, at_root(EVEN, "by=16 ty=4", "by=16 tr.k=32 ty=4 rr.k=8")),
    "points of a thread": (EVEN, at_root(EVEN, "by=16 ty=2 sy=2", "by=16 rr.k=16 tr.k=16 ty=2 sy=2")),
    "doubles": (DOUBLES, at_root(DOUBLES, "by=16 ty=4", "by=16 rr.k=8 tr.k=32 ty=4")),
    "in a block": (TWICE, in_block(TWICE, "by=16 ty=4", "ty=4", "rr.k=8 tr.k=32 ty=4")),
    "in a block with longer rows": (TWICE, in_block(TWICE, "by=2 ty=32", "ty=32", "rr.k=32 tr.k=8 ty=32")),
}


def features(bound: BoundPipeline, found: Schedule, *, k: int = 0, **options: bool) -> dict[str, Any]:
    """Return the features of a kernel by name, an array of stages each, as the code is written."""
    sketch, params = describe_kernel(bound, found.kernels[k])
    model = Featurizer(bound, H200, **options).model(sketch)
    rows = np.array([(*params, *described_points(bound, found.kernels[k]))], np.int64)
    values = model.evaluate(rows).features[0]
    return {name: values[:, column] for name, column in INDEX.items()}


@pytest.mark.parametrize("name", CASES)
def test_counts_match_the_trace(name: str) -> None:
    bound, found = CASES[name]
    program = lower(bound, found, vectors=False)
    trace = traced(bound, program)
    got = features(bound, found, amortised=False, every_warp=True, vectors=False)
    shared = np.array([s == "shared" for s in trace.space])
    moved, asked = trace.sectors / trace.blocks, trace.requests / trace.blocks
    assert got["num_global_mem_loads_per_block"].sum() == moved[~trace.is_store].sum()
    assert got["num_global_mem_stores_per_block"].sum() == moved[trace.is_store].sum()
    assert got["global_requests_per_block"].sum() == asked[~shared].sum()
    passes = (trace.wavefronts * shared * ~trace.is_store).sum() / trace.blocks
    assert got["num_shared_mem_loads_per_block"].sum() == passes + got["shuffles_per_block"].sum()
    exchanged = got["shuffles_per_block"].sum()
    words = 2 if bound is DOUBLES else 1
    assert count_kernel(program.kernels[0]).total("shuffles") == words * exchanged
    lanes = max(warp_lane_count(bound, t) for t in found.kernels[0].tilings())
    each = got["num_threads_per_block"][-1] / got["num_active_warps_per_block"][-1]
    assert trace.shuffles == exchanged * each * trace.blocks
    assert got["split_reduction_factor"].max() == lanes
    assert got["num_warps_per_block"][0] == trace.warps / trace.blocks


@pytest.mark.parametrize("name", GOOD)
def test_every_legal_kernel_has_features(name: str) -> None:
    bound, found = GOOD[name]
    for k in range(len(found.kernels)):
        for values in features(bound, found, k=k).values():
            assert np.isfinite(values).all() and (values >= 0).all()


def test_terms_and_bytes_are_not_counted_for_each_lane() -> None:
    bound, found = CASES["whole warps"]
    got = features(bound, found)
    assert got["points_computed_total"].tolist() == [64, 64 * 256]
    assert got["points_computed_per_thread"].tolist() == [1, 8]
    assert got["num_threads_per_block"].tolist() == [4, 128]
    assert got["split_reduction_factor"].tolist() == [0, 32]
    assert got["global_bytes_at_task"].tolist() == [16, 16]
    assert got["global_bytes_written_by_kernel"].tolist() == [256, 0]
    alone = schedule(bound, kernel(bound, [root("f", "by=64")]), kernel(bound, [root("f.1", "by=64 rr.k=8 tr.k=32")]))
    got = features(bound, alone, k=1)
    assert got["global_bytes_at_task"].tolist() == [4]
    assert got["global_bytes_written_by_kernel"].tolist() == [256]
    assert got["points_computed_total"].tolist() == [64 * 256]


def test_a_rewrite_has_a_lane_loop() -> None:
    lanes = LaneLoop("f", 1, "r.k", 32)
    view = add_lane_loops(EVEN, (lanes,))
    assert add_lane_loops(EVEN, (lanes,)) is view
    stage = view.stage("f", 1)
    assert [(d.name, d.extent, d.parallel) for d in stage.loops] == [
        ("y", 0, True), ("r.k", 8, False), ("r.k.lane", 32, True),
    ]  # fmt: skip
    assert describe_kernel(*(EVEN, CASES["whole warps"][1].kernels[0]))[0].lanes == (lanes,)
    assert EVEN.stage("f", 1).loop("r.k").extent == 256
    assert StageId("f", 1) in describe_kernel(EVEN, CASES["whole warps"][1].kernels[0])[0].stages


def test_lanes_come_first_in_the_thread_order() -> None:
    view = add_lane_loops(EVEN, (LaneLoop("f", 1, "r.k", 32),))
    assert thread_order(view, "f", ("y", "r.k.lane")) == ("r.k.lane", "y")
    assert thread_order(view, "f", ("y", "r.k")) == ("y", "r.k")  # threads of another update share its terms
