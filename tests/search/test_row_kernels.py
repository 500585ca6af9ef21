"""Row kernels found by searches: one kernel for a chain of row statistics."""

from __future__ import annotations

import numpy as np
import pytest

import autosched
from autosched import Func, Input, Pipeline, RDom, Var, exp, float32, interpret, maximum, sqrt
from autosched import sum as sum_over
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.lane_loops import add_lane_loops
from autosched.lang.idioms import log_softmax, softmax
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.refine.row_kernels import RowKernelSearch, row_group
from autosched.search.rewrites.portfolio import RewriteSearch
from autosched.search.rewrites.warp_reductions import warp_reduction_rewrites
from autosched.search.settings import SearchSettings
from autosched.target import get_target
from tests.schedule.row_kernel_cases import normalised

H200 = get_target("h200")
n, c = Var("n"), Var("c")


def norm_softmax() -> Pipeline:
    """Return layer norm and softmax of rows."""
    x, gamma, beta = Input("x", float32, 2), Input("gamma", float32, 1), Input("beta", float32, 1)
    rows, columns = x.shape
    r = RDom("r", c=columns)
    mean, var, norm, top, e, out = (Func(name) for name in ("mean", "var", "norm", "top", "e", "out"))
    mean[n] = sum_over(x[n, r.c], over=r) / columns
    d = x[n, r.c] - mean[n]
    var[n] = sum_over(d * d, over=r) / columns
    norm[n, c] = (x[n, c] - mean[n]) / sqrt(var[n] + 1e-5) * gamma[c] + beta[c]
    top[n] = maximum(norm[n, r.c], over=r)
    e[n, c] = exp(norm[n, c] - top[n])
    out[n, c] = e[n, c] / sum_over(e[n, r.c], over=r)
    return Pipeline(out.over(n=(0, rows), c=(0, columns)), name="norm_softmax")


def shapes_of(rows: int, columns: int) -> dict[str, tuple[int, ...]]:
    return {"x": (rows, columns), "gamma": (columns,), "beta": (columns,)}


def test_layer_norm_and_softmax_are_one_kernel() -> None:
    """Predicted to take at most 13 us; the bytes take 5.3 us at the peak rate of the memory."""
    pipeline = norm_softmax()
    scheduled = autosched.schedule(pipeline, shapes_of(4095, 771), H200, cost="analytical", reuse=False)
    assert len(scheduled.schedule.kernels) == 1
    (found,) = scheduled.schedule.kernels
    assert {m.func for m in found.fused if m.private} >= {"x.staged", "norm"}
    assert scheduled.provenance is not None and (scheduled.provenance.predicted_s or 1) <= 13e-6


def lanes_of(pipeline: Pipeline, shapes: dict[str, tuple[int, ...]]) -> BoundPipeline:
    return warp_reduction_rewrites([bind(pipeline, shapes)], H200)[0]


def search_of(bound: BoundPipeline) -> RewriteSearch:
    return RewriteSearch(bound, H200, analytical_model(H200), SearchSettings(), 0)


def test_group_of_a_consumer() -> None:
    bound = lanes_of(norm_softmax(), shapes_of(4095, 771))
    group = row_group(bound, "out")
    assert group is not None and group.rows == ("n",)
    assert set(group.producers) == set(bound.funcs) - {"out"}
    assert row_group(bound, "norm") is None or "out" not in row_group(bound, "norm").producers  # type: ignore[union-attr]
    assert row_group(add_lane_loops(bound.rewritten, ()), "mean") is None


def test_a_table_of_columns_stays_outside() -> None:
    """A Func of columns alone is the same for all blocks."""
    x, w = Input("x", float32, 2), Input("w", float32, 1)
    r = RDom("r", c=x.shape[1])
    weight, total, out = Func("weight"), Func("total"), Func("out")
    weight[c] = exp(w[c])
    total[n] = sum_over(x[n, r.c] * weight[r.c], over=r)
    out[n, c] = x[n, c] * weight[c] / total[n]
    pipeline = Pipeline(out.over(n=(0, x.shape[0]), c=(0, x.shape[1])))
    group = row_group(lanes_of(pipeline, {"x": (512, 300), "w": (300,)}), "out")
    assert group is not None and "weight" not in group.producers and len(group.producers) == 2


def test_long_rows_keep_their_kernels() -> None:
    """A warp for each of few long rows leaves the device idle; no result gets slower."""
    x = Input("x", float32, 2)
    bound = lanes_of(Pipeline(softmax(x, x=(0, 50_257)).over(y=(0, 80), x=(0, 50_257))), {"x": (80, 50_257)})
    search = search_of(bound)
    search.greedy_cost(None)
    state = search.states[0]
    rows = RowKernelSearch(search.greedy.evaluator, search.greedy.expander.enumerator)
    assert rows.with_row_kernels(state).cost <= state.cost


SMALL = [(1, 64), (37, 64), (12, 65), (9, 95), (5, 771), (3, 128), (70, 96)]


@pytest.mark.parametrize("shape", SMALL)
def test_schedules_of_rows_agree_with_the_interpreter(shape: tuple[int, int]) -> None:
    pipeline = norm_softmax()
    rng = np.random.default_rng(shape)
    inputs = {
        "x": rng.standard_normal(shape).astype(np.float32), "gamma": rng.random(shape[1]).astype(np.float32),
        "beta": rng.random(shape[1]).astype(np.float32),
    }  # fmt: skip
    scheduled = autosched.schedule(pipeline, inputs=inputs, target=H200, cost="analytical", reuse=False)
    expected = interpret(pipeline, inputs)["out"]
    for backend in ("cpu", "emulator"):
        np.testing.assert_allclose(scheduled.compile(backend)(inputs), expected, rtol=2e-5, err_msg=backend)
    scheduled.compile("cuda")


@pytest.mark.parametrize("idiom", [softmax, log_softmax])
def test_special_values(idiom: type) -> None:
    """Rows with NaN, infinities, equal elements, zeros of both signs and one finite element."""
    x = Input("x", float32, 2)
    a = np.random.default_rng(3).standard_normal((9, 70)).astype(np.float32)
    a[0, 3], a[1, 5], a[2, 9], a[3], a[4, ::2], a[5, 1:] = np.nan, np.inf, -np.inf, 0.0, -0.0, -np.inf
    a[6], a[7, 0], a[8, 3] = 5.0, 1e38, -1e38
    pipeline = Pipeline(_over(idiom, x))
    scheduled = autosched.schedule(pipeline, inputs={"x": a}, target=H200, cost="analytical", reuse=False)
    with np.errstate(all="ignore"):
        (expected,) = interpret(pipeline, {"x": a}).values()
    for backend in ("cpu", "emulator"):
        np.testing.assert_allclose(scheduled.compile(backend)({"x": a}), expected, rtol=2e-5, atol=1e-6)


def _over(idiom: type, x: Input) -> Func:
    rows, columns = x.dims
    return idiom(x, **{columns: (0, 70)}).over(**{rows: (0, 9), columns: (0, 70)})  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["int32", "uint32", "int64"])
def test_integers_keep_their_bits(name: str) -> None:
    pipeline = normalised(autosched.lang.dtypes.as_dtype(name))
    a = np.random.default_rng(4).integers(0, np.iinfo(name).max, (40, 100)).astype(name)
    scheduled = autosched.schedule(pipeline, inputs={"a": a}, target=H200, cost="analytical", reuse=False)
    expected = interpret(pipeline, {"a": a})["out"]
    for backend in ("cpu", "emulator"):
        np.testing.assert_array_equal(scheduled.compile(backend)({"a": a}), expected)


def test_pipelines_without_row_statistics_are_not_searched_again() -> None:
    from autosched.apps import get_app

    bound = bind(get_app("unsharp").build(), {"input": (3, 130, 258)})
    search = search_of(bound)
    search.greedy_cost(None)
    assert search.search.with_row_kernels(search.states) == search.states
