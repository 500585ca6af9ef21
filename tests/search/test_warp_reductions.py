"""Warp reductions in the search: candidates, tilings, and results that agree with the backends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, interpret
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.lane_loops import LaneLoop, add_lane_loops
from autosched.apps import get_app
from autosched.apps.registry import NAMES
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.scaling.warp_reductions import from_lane_loops, to_lane_loops
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.lang.dtypes import float32, int16
from autosched.lang.rdom import sum as sum_over
from autosched.measure.problem import Problem
from autosched.measure.simulated.simulate import simulate
from autosched.schedule.kernel.warp_reduction import warp_lane_count
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Level, Schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.search.rewrites.horizontal_fusion import fusion_rewrites
from autosched.search.rewrites.warp_reductions import warp_reduction_rewrites
from autosched.search.settings import GREEDY, PAPER, SearchSettings
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.strategies.protocol import Beam
from autosched.target import get_target
from tests.schedule.warp_reduction_cases import rows

ROWS = NAMES[NAMES.index("softmax") : NAMES.index("box")]
H200, CPU = get_target("h200"), get_target("cpu")
x = Var("x")
SHARED = replace(GREEDY, warp_reductions=True)


def layer_norm(rows: int = 256, columns: int = 512) -> BoundPipeline:
    app = get_app("layer_norm")
    return bind(app.build(), app.shapes({"R": rows, "C": columns}))


def lanes_in(bound: BoundPipeline, schedule: Schedule) -> set[int]:
    tilings = [t for k in schedule.kernels for t in k.tilings() if t.stage.func in bound.funcs]
    return {warp_lane_count(bound, t) for t in tilings}


def test_only_long_sums_of_few_points_get_warp_reductions() -> None:
    found = {n: warp_reduction_rewrites([Problem.app(n).bind()], H200) for n in NAMES}
    assert [n for n, views in found.items() if views] == [
        "hist",
        "layer_norm",
        "standardize",
        "kernel_regression",
        *ROWS,
    ]
    assert found["layer_norm"][0].lane_loops == (LaneLoop("total", 1, "r.x", 32), LaneLoop("squares", 1, "r.x", 32))


@pytest.mark.parametrize(
    ("pipeline", "shape"),
    [
        (rows(), (100_000, 512)),  # points enough
        (rows(), (512, 48)),  # terms too few
        (rows("add", int16), (512, 512)),  # elements too small
        (Pipeline([Input("a", float32, 2).clamped().over(y=(0, 9), x=(0, 9))]), (512, 512)),
    ],
)
def test_pipelines_without_warp_reductions(pipeline: Pipeline, shape: tuple[int, int]) -> None:
    assert warp_reduction_rewrites([bind(pipeline, {pipeline.inputs[0].name: shape})], H200) == []


def test_a_processor_reduces_rows_of_neighbours_along_its_vectors() -> None:
    (rewrite,) = warp_reduction_rewrites([layer_norm(rows=100_000)], CPU)
    assert rewrite.lane_loops == (LaneLoop("total", 1, "r.x", 32), LaneLoop("squares", 1, "r.x", 32))
    assert [v.lane_loops for v in warp_reduction_rewrites([bind(rows("add", int16), {"a": (512, 512)})], CPU)] == [
        (LaneLoop("f", 1, "r.k", 64),)
    ]
    a, f, r = Input("a", float32, 2), Func("f"), RDom("r", k=512)
    f[x] = sum_over(a[r.k, x], over=r)  # neighbouring points are neighbours in memory
    assert warp_reduction_rewrites([bind(Pipeline([f.over(x=(0, 512))]), {"a": (512, 512)})], CPU) == []


@pytest.mark.parametrize("shape", [(64, 771), (300, 8192)])
def test_the_default_strategy_sums_rows_along_vectors(shape: tuple[int, int]) -> None:
    bound = bind(rows(), {"a": shape})
    found = Beam().search(bound, CPU).ranked[0].schedule
    assert lanes_in(bound, found) == {1, 32}
    data = {"a": np.random.default_rng(0).random(shape, np.float32)}
    result = ScheduledPipeline(bound, found, CPU).compile("cpu")(data)
    np.testing.assert_allclose(result, data["a"].sum(axis=1, dtype=np.float64) + 3, rtol=1e-5)


def test_warp_reductions_depend_on_target_and_settings() -> None:
    bound = layer_norm()
    assert any(v.lane_loops for v in fusion_rewrites(bound, H200, SearchSettings()))
    assert not any(v.lane_loops for v in fusion_rewrites(bound, H200, SearchSettings(warp_reductions=False)))
    assert fusion_rewrites(bound, H200, PAPER) == [bound]
    (view,) = warp_reduction_rewrites([bound], H200)
    assert fusion_rewrites(view, H200, SearchSettings()) == [view]


def test_the_search_takes_them_where_they_pay() -> None:
    bound = layer_norm(4096, 1024)
    found, without = (Beam(replace(SHARED, warp_reductions=s)).search(bound, H200).ranked[0] for s in (True, False))
    assert 32 in lanes_in(bound, found.schedule)
    assert lanes_in(bound, without.schedule) == {1}
    times = [simulate(bound, r.schedule, H200).seconds for r in (found, without)]
    assert found.seconds < without.seconds and times[0] < times[1] / 1.5


@pytest.mark.parametrize("name", ["layer_norm", "standardize", "hist"])
def test_schedules_with_warp_reductions_are_right_and_costed_exactly(name: str) -> None:
    app = get_app(name)
    sizes = {"R": 96, "C": 200} if name == "layer_norm" else {"H": 96, "W": 200}
    bound, inputs = bind(app.build(), app.shapes(sizes)), app.make_inputs(sizes)
    expected = interpret(app.build(), inputs)["output"]
    (view,) = warp_reduction_rewrites([bound], H200)
    found = Beam(replace(SHARED, beam_size=2)).search(view, H200, seed=0, count=3)
    assert not found.note
    for r in found.ranked:
        assert violations(bound, r.schedule, H200) == []
        assert r.evaluator is not None
        costs = [evaluated(Featurizer(bound, H200), k).seconds(r.evaluator.model) for k in r.schedule.kernels]
        assert sum(costs) == pytest.approx(r.seconds, rel=1e-4)
    schedule = found.ranked[0].schedule
    assert 32 in lanes_in(bound, schedule)
    scheduled = ScheduledPipeline(bound, schedule, H200)
    for backend in ("cpu", "emulator"):
        assert app.tolerance.mismatch(np.asarray(scheduled.compile(backend)(inputs)), expected) is None
    scheduled.compile("cuda")


def test_row_sums_are_computed_in_the_blocks_that_read_them() -> None:
    bound = layer_norm(4096, 1024)
    (view,) = warp_reduction_rewrites([bound], H200)
    found = Beam(replace(SHARED, beam_size=4)).search(view, H200, seed=0, count=1)
    assert Level.BLOCK in {found.best.levels["total"], found.best.levels["squares"]}


def test_blocks_have_whole_rows_and_whole_warps() -> None:
    y, x, a = Var("y"), Var("x"), Input("a", float32, 2)
    out = Func("out")
    r = RDom("r", k=a.shape[1])
    out[y, x] = a[y, x] * sum_over(a[y, r.k], over=r, name="total")
    bound = bind(Pipeline([out.over(y=(0, a.shape[0]), x=(0, 48))]), {"a": (512, 1000)})
    (view,) = warp_reduction_rewrites([bound], H200)
    enumerator = OptionEnumerator(KernelEvaluator(view, H200, analytical_model(H200), SearchSettings()))
    sketch = enumerator.compute_locations.root_sketches(view.funcs["out"])[0]
    tilings = np.array(enumerator.tilings(sketch))
    threads, points = tilings[:, 1], tilings[:, 3]
    assert (threads * points >= 48).all()
    assert all(n <= 32 or n % 32 == 0 for n in threads.tolist()), "48 threads would break a row of lanes"


def test_kernels_with_lane_loops_convert_both_ways() -> None:
    bound = layer_norm()
    (view,) = warp_reduction_rewrites([bound], H200)
    found = Beam(SHARED).search(view, H200, seed=1, count=1)
    lanes = [LaneLoop(*one) for one in view.lane_loops]
    for kernel in found.best.kernels:
        assert from_lane_loops(to_lane_loops(kernel, lanes), lanes) == kernel
        inside, besides = describe_kernel(view, kernel)[0], describe_kernel(bound, kernel)[0]
        assert not inside.lanes and set(besides.lanes) <= set(lanes)


def test_pipeline_with_and_without_lane_loops() -> None:
    """A pipeline with lane loops also costs kernels without warp reductions."""
    bound = layer_norm()
    (view,) = warp_reduction_rewrites([bound], H200)
    found = Beam(GREEDY).search(bound, H200)
    for kernel in found.best.kernels:
        model = found.ranked[0].evaluator.model  # type: ignore[union-attr]
        one, other = (evaluated(Featurizer(b, H200), kernel).seconds(model) for b in (bound, view))
        assert one == pytest.approx(other)
    assert add_lane_loops(view, ()) is view and view.rewritten is bound and view.root_pipeline is bound
