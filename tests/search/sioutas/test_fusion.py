"""Listing 2: overlap dimensions, and compute locations of members."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, float32, sum
from autosched.analysis.bind import bind
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


def test_use_of_a_quarter_of_shared_memory_or_half_of_the_threads_is_severe() -> None:
    quarter = H200.shared_per_block_optin // 4
    assert is_severe(H200, quarter, 32)
    assert not is_severe(H200, quarter - 4, 511)
    assert is_severe(H200, 0, 512)
