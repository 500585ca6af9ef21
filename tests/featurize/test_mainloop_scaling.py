"""Features of kernels with a mainloop, against counts of their code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosched import Func, Input, Pipeline, RDom, Var, float32
from autosched import sum as sum_over
from autosched.analysis.bind import bind
from autosched.errors import ScheduleError
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.scaling.mainloop_scaling import OF_EVERY_STEP, single_step_kernel
from autosched.featurize.schema import INDEX, NAMES
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.lower.program import lower
from autosched.measure.simulated.count import count_kernel
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.types import ComputeAt, Kernel, Level
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.target import get_target
from tests.schedule.building import member, schedule, stage
from tests.schedule.mainloop_cases import in_steps, product

H200 = get_target("h200")
BOUND = product(64, 96, 48)
"""Sizes that tiles of 16 x 24 points divide, so that all blocks are equal."""
SHAPES = {
    "four terms a step": {"walked": "rr.k=12"},
    "eight terms a step": {"walked": "rr.k=6", "inner": "rr.k=8", "a": "tx=8 ty=4 sy=4", "b": "tx=8 ty=4 sy=2 sx=3"},
    "one term a step": {"walked": "rr.k=48", "inner": "", "a": "ty=8 sy=2", "b": "tx=8 sx=3"},
}


BUFFERED = {"one": lambda k: k, "ahead": Kernel.with_double_buffering, "past registers": Kernel.with_async_copies}


@pytest.mark.parametrize("buffers", BUFFERED)
@pytest.mark.parametrize("shape", SHAPES)
def test_counts_match_the_code(shape: str, buffers: str) -> None:
    kernel = BUFFERED[buffers](in_steps(BOUND, "by=4 bx=4", **SHAPES[shape]))
    found = evaluated(Featurizer(BOUND, H200), kernel).batch_evaluation
    (code,) = lower(BOUND, schedule(BOUND, kernel)).kernels
    work = count_kernel(code)

    def summed(*names: str) -> float:
        return float(sum(found.features[0, :, INDEX[name]].sum() for name in names))

    assert summed("num_global_mem_loads_per_block") == work.total("load_sectors")
    assert summed("num_global_mem_stores_per_block") == work.total("store_sectors")
    assert summed("global_requests_per_block") == work.total("load_requests") + work.total("store_requests")
    assert summed("shared_requests_per_block") == work.total("shared_requests")
    wavefronts = summed("num_shared_mem_loads_per_block", "num_shared_mem_stores_per_block")
    if buffers == "past registers":  # vectors that are loaded or stored as such alone are copied by elements
        assert wavefronts == pytest.approx(work.total("wavefronts"), rel=0.2)
    else:
        assert wavefronts == work.total("wavefronts")
    assert found.shared_bytes.tolist() == [code.shared_bytes]
    assert found.features[0, :, INDEX["streaming_steps"]].max() == 48 / int(
        SHAPES[shape].get("inner", "rr.k=4")[5:] or 1
    )


def test_accumulators_of_a_thread_are_in_registers() -> None:
    found = evaluated(Featurizer(BOUND, H200), in_steps(BOUND, "by=4 bx=4", walked="rr.k=12")).batch_evaluation
    assert found.thread_bytes.tolist() == [12 * 4]


def test_operations_count_in_every_step() -> None:
    kernel = in_steps(BOUND, "by=4 bx=4", walked="rr.k=12")
    steps, _ = single_step_kernel(BOUND, kernel) or pytest.fail("no steps")
    assert steps.count == 12 and steps.bound.stage("dot", 1).loop("r.k").extent == 4
    assert (again := single_step_kernel(BOUND, kernel)) is not None and again[0].bound is steps.bound
    found = evaluated(Featurizer(BOUND, H200), kernel).batch_evaluation
    points = 16 * 24 * 48
    assert found.features[0, 1, INDEX["float_operations_per_block"]] == 2 * points


def test_operands_of_the_epilogue_are_left_out() -> None:
    """The step has no epilogue, so that it lacks cache reads of the epilogue's operands."""
    y, x, r = Var("y"), Var("x"), RDom("r", k=24)
    a, b, c = (Input(name, float32, 2) for name in "abc")
    out = Func("out")
    out[y, x] = sum_over(a[y, r.k] * b[r.k, x], over=r, name="dot") + c[y, x]
    bound = bind(Pipeline(out.over(y=(0, 64), x=(0, 96))), {"a": (64, 24), "b": (24, 96), "c": (64, 96)})
    alone = in_steps(bound, "by=4 bx=4")
    copy = member(ComputeAt(Level.BLOCK, stage("out"), 2), ("y", "x"), **{"c.staged": "tx=8 ty=4 sy=4 sx=3"})
    both = replace(alone, fused=(*alone.fused, copy))
    assert not kernel_violations(bound, both, H200)
    featurizer = Featurizer(bound, H200)
    assert (
        evaluated(featurizer, both).batch_evaluation.features.tolist()
        == evaluated(featurizer, alone).batch_evaluation.features.tolist()
    )


def test_every_count_of_a_block_is_scaled_or_listed() -> None:
    """Every feature of the schema is listed as scaled or not."""
    counts = {n for n in NAMES if n.endswith(("_per_block", "_per_border_block"))}
    once = {"num_global_mem_stores_per_block", "global_stores_per_border_block"}  # sums, after the last step
    of_kernel = {n for n in NAMES if n.startswith("num_") and n.endswith(("warps_per_block", "threads_per_block"))}
    apart = {"global_requests_per_block", "global_requests_per_border_block", "steps_per_block"}
    reserved = {"shuffles_per_block", "asynchronous_bytes_per_block"}
    assert counts - once - of_kernel - apart - reserved <= set(OF_EVERY_STEP)


def test_a_sketch_cannot_describe_a_mainloop() -> None:
    with pytest.raises(ScheduleError, match=r"dot\.1 has a mainloop, which a sketch cannot describe"):
        describe_kernel(BOUND, in_steps(BOUND))
