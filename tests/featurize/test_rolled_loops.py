"""Iterations of rolled loops share no loads with one another or with other nests."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, Var, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.schedule.types import Level, StageId
from tests.featurize.random_kernels import H200
from tests.featurize.test_unrolled_accesses import ComparedPool

OUT = StageId("out")
TAPS = 3
CHEAP, DEAR = 0, 20


def column(power: int) -> BoundPipeline:
    """``tall`` reads three rows of ``bright``; the loop is rolled above some number of products."""
    y, x = Var("y"), Var("x")
    img, bright, tall, out = Input("img", float32, 2), Func("bright"), Func("tall"), Func("out")
    bright[y, x] = img[y, x] * 2.0
    value = bright[y, x] + bright[y + 1, x] + bright[y + 2, x]
    for k in range(power):
        value = value * value + float(k)
    tall[y, x] = value
    out[y, x] = tall[y, x] * 3.0
    return bind(Pipeline([out.over(y=(0, 960), x=(0, 1024))]), {"img": (1024, 1024)})


def loads(bound: BoundPipeline, rows: int, *, threads: int = 1) -> float:
    """Return the shared loads of ``tall`` in a block of ``rows`` rows of one warp's width, by both enumerations."""
    featurizer = Featurizer(bound, H200)
    featurizer.tables.entries = ComparedPool(featurizer.tables.kinds, amortised=True, vectors=True)
    locations = (ComputeLocation("bright", Level.BLOCK, OUT), ComputeLocation("tall", Level.BLOCK, OUT))
    model = featurizer.model(KernelSketch((OUT,), locations))
    params = (4, 32, rows // 4, 1, 4, 32, threads, 32)
    found = model.evaluate(np.array([params], np.int64)).features
    return float(found[0, model.rows.index(StageId("tall")), INDEX["num_shared_mem_loads_per_block"]])


def test_unrolled_points_share_loads() -> None:
    assert loads(column(DEAR), 16) == 16 + TAPS - 1


@pytest.mark.parametrize("rows", [20, 32])
def test_points_of_a_rolled_loop_share_no_loads(rows: int) -> None:
    assert loads(column(DEAR), rows) == rows * TAPS


def test_compilers_unroll_short_loops_without_a_pragma() -> None:
    assert loads(column(CHEAP), 20) == 20 + TAPS - 1


def test_guarded_iterations_load_their_own_elements() -> None:
    """Every warp iterates over the 18 rows of the first one: each iteration evaluates the guard."""
    assert loads(column(DEAR), 52, threads=3) == 3 * 18 * TAPS
