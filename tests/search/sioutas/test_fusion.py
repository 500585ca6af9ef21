"""Listing 2: overlap dimensions, and compute locations of members."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, float32, sum
from autosched.analysis.bind import bind
from autosched.apps.registry import get_app
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.types import Level, StageId
from autosched.search.strategies.sioutas.fusion import NestedFusion, is_severe, overlap_dims
from autosched.target import get_target
from tests.search.sioutas.pipelines import figure_4

H200 = get_target("h200")
NONE: frozenset[str] = frozenset()


def test_k_of_figure_4_moves_into_the_threads_of_w_and_w_stays() -> None:
    bound = bind(figure_4(), {"E": (512, 512)})
    z = StageId("Z")
    locations = (ComputeLocation("K", Level.BLOCK, z), ComputeLocation("W", Level.BLOCK, z))
    group = KernelSketch((z,), locations, frozenset({"E_clamped", "H"}))
    # Z: 12 x 32 threads of one point; K: 16 rows of 32 for each of 3 channels; W: 16 rows (section 3: 32 x 16)
    params = np.array([12, 32, 1, 1, 1, 16, 32, 16, 32])
    featurizer = Featurizer(bound, H200)
    nested, fewer, kept = NestedFusion(featurizer, H200).run(group, params)
    assert [(s.func, s.level, s.host) for s in nested.locations] == [
        ("K", Level.THREAD, StageId("W")),
        ("W", Level.BLOCK, z),
    ]
    assert fewer.tolist() == [12, 32, 1, 1, 16, 32]
    assert kept == []
    kernel = build_kernel(featurizer.model(nested), fewer)
    assert kernel_violations(bound, kernel, H200) == []


@pytest.mark.parametrize(("consumer", "producer", "expected"), [("W", "K", set()), ("Z", "W", {"y"})])
def test_overlap_of_figure_4(consumer: str, producer: str, expected: set[str]) -> None:
    bound = bind(figure_4(), {"E": (512, 512)})
    assert overlap_dims(bound, bound.stage(consumer, 0), producer, NONE) == expected


def test_overlap_through_inlined_funcs() -> None:
    bound = bind(figure_4(), {"E": (512, 512)})
    assert overlap_dims(bound, bound.stage("Z", 0), "K", frozenset({"W"})) == {"y"}
    assert overlap_dims(bound, bound.stage("Z", 0), "K", NONE) == set()  # not read without W


def test_a_loop_that_a_read_does_not_depend_on_overlaps_whole() -> None:
    j, i = Var("j"), Var("i")
    a, row, out = Input("a", float32, 1), Func("row"), Func("out")
    row[i] = a[i] * 2
    out[j, i] = row[i] + j
    bound = bind(Pipeline([out.over(j=(0, 8), i=(0, 100))]), {"a": (100,)})
    assert overlap_dims(bound, bound.stage("out", 0), "row", NONE) == {"j"}


def test_overlap_of_a_product_s_loops() -> None:
    """``dot[i, j]`` adds ``left[i, k] * b[k, j]``: every j reads row i again, each k another point of it."""
    i, j, k = Var("i"), Var("j"), Var("k")
    a, b, left, out = Input("a", float32, 2), Input("b", float32, 2), Func("left"), Func("out")
    left[i, k] = a[i, k] * 2 + a[k, i]
    r = RDom("r", k=a.shape[1])
    out[i, j] = sum(left[i, r.k] * b[r.k, j], over=r, name="dot")
    bound = bind(Pipeline([out.over(i=(0, 64), j=(0, 64))]), {"a": (64, 64), "b": (64, 64)})
    update = bound.funcs["dot"].stages[-1]
    assert update.is_update
    assert overlap_dims(bound, update, "left", NONE) == {"j"}


@pytest.mark.parametrize(
    ("shared", "occupancy", "active", "expected"),
    [
        (32 * 1024, 0.3, 900, False),
        (32 * 1024 + 4, 0.3, 900, True),
        (0, 0.29, 64, True),  # low occupancy
        (0, 1.0, 901, True),
    ],
)
def test_severe_resource_use(shared: int, occupancy: float, active: int, expected: bool) -> None:
    assert is_severe(shared, occupancy, active) is expected


def depthwise_separable(channels_in_threads: bool) -> tuple[KernelSketch, np.ndarray]:
    """Return the group of a depthwise-separable layer; threads along columns, channels in threads or serial."""
    out = StageId("output")
    group = KernelSketch(
        (out,),
        (ComputeLocation("depthwise", Level.BLOCK, out), ComputeLocation("pointwise", Level.BLOCK, out)),
        frozenset({"input_constant"}),
    )
    lanes, points = ([1, 1, 4, 16], [1, 1, 1, 1]) if channels_in_threads else ([1, 1, 16, 1], [1, 1, 1, 16])
    depthwise, pointwise = [1, 1, 4, 16], lanes
    return group, np.array([*lanes, *points, *depthwise, *pointwise])


@pytest.mark.parametrize("channels_in_threads", [False, True])
def test_loops_around_a_nested_consumer_do_not_repeat_its_producer(channels_in_threads: bool) -> None:
    """``pointwise`` moves into the channels of ``output``, all of which need the same points of ``depthwise``."""
    app = get_app("depthwise_separable_conv")
    bound = bind(app.build(), app.shapes({}))
    group, params = depthwise_separable(channels_in_threads)
    featurizer = Featurizer(bound, H200)
    nested, fewer, _ = NestedFusion(featurizer, H200).run(group, params)
    places = {s.func: s for s in nested.locations}
    assert places["pointwise"] == ComputeLocation("pointwise", Level.THREAD, StageId("output"), 4)
    if channels_in_threads:  # neighbouring threads share it
        assert places["depthwise"].level is Level.BLOCK
    else:  # one thread has all channels
        assert places["depthwise"].level is Level.THREAD
        assert (places["depthwise"].host, places["depthwise"].enclosing) == (StageId("output"), 3)
    assert kernel_violations(bound, build_kernel(featurizer.model(nested), fewer), H200) == []
