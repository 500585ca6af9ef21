"""Producers computed once per reduction step: compute locations, and predicted gains."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from autosched import Func, Input, Pipeline, RDom, Var, float32, interpret
from autosched import sum as sum_over
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.measure.simulated.simulate import simulate
from autosched.schedule.types import Schedule, StageId
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.beam.random_states import RandomStates
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import SearchSettings
from autosched.search.space.compute_locations import ComputeLocations
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.strategies.protocol import Beam
from tests.featurize.random_kernels import H200, states_of
from tests.schedule.weighted_sum import weighted

y, x = Var("y"), Var("x")
SETTINGS = SearchSettings(beam_size=4, passes=2)


def kernel_regression(sizes: Mapping[str, int]) -> BoundPipeline:
    app = get_app("kernel_regression")
    return bind(app.build(), app.shapes(sizes))


def thread_locations(bound: BoundPipeline, sketch: KernelSketch, func: str) -> list[tuple[str, int, bool]]:
    sketches = ComputeLocations(Featurizer(bound, H200)).at_thread(sketch, func)
    locations = [s.location(func) for s in sketches]
    return [(str(p.host), p.enclosing, p.each_term) for p in locations if p is not None]


def each_term(schedule: Schedule) -> list[str]:
    return [m.func for k in schedule.kernels for m in k.fused if k.is_per_reduction_step(m)]


def test_producer_that_varies_with_terms_has_a_per_step_location() -> None:
    bound = weighted()
    sums = KernelSketch((StageId("total"), StageId("total", 1)))
    expected = [("total.1", 0, False), ("total.1", 0, True), ("total.1", 1, False), ("total.1", 2, False)]
    assert thread_locations(bound, sums, "weight") == expected
    (_, outside, inside, *_) = [sums, *ComputeLocations(Featurizer(bound, H200)).at_thread(sums, "weight")]
    assert thread_locations(bound, outside, "dot") == expected[:1], "weight reads it outside of the terms"
    assert thread_locations(bound, inside, "dot") == expected[:2]


def test_producer_that_is_constant_over_terms_has_none() -> None:
    table, gain, total, out = Input("table", float32, 2), Func("gain"), Func("total"), Func("out")
    r, c = RDom("r", k=30), RDom("c", k=30)
    gain[y] = sum_over(table[y, c.k], over=c, name="whole") * 2
    total[y, x] = 0.0
    total[y, x] += gain[y] * table[r.k, x]
    out[y, x] = total[y, x] * gain[y]
    bound = bind(Pipeline([out.over(y=(0, 30), x=(0, 30))]), {"table": (30, 30)})
    sums = KernelSketch((StageId("total"), StageId("total", 1)))
    assert thread_locations(bound, sums, "gain") == [
        ("total.1", 0, False),
        ("total.1", 1, False),
        ("total.1", 2, False),
    ]


def test_random_states_have_per_step_locations() -> None:
    bound = weighted()
    states, found = states_of(bound), []
    for seed in range(12):
        drawn = states.draw_legal(np.random.default_rng(seed))
        found += each_term(drawn[1]) if drawn is not None else []
    assert len(found) > 2


def test_weights_are_computed_per_step_where_predicted_faster() -> None:
    """Lanes of a warp reduction compute one weight each; at root, all weights pass through global memory."""
    bound = kernel_regression(get_app("kernel_regression").default_sizes)
    found = Beam(SETTINGS).search(bound, H200).ranked[0]
    assert each_term(found.schedule) == ["distance"]
    times = [simulate(bound, s, H200).seconds for s in (schedule_roots(bound, H200), found.schedule)]
    assert times[1] < 0.8 * times[0]


def test_per_step_schedules_agree_with_the_interpreter() -> None:
    app = get_app("kernel_regression")
    bound, inputs, found = kernel_regression(app.small_sizes), app.make_inputs(app.small_sizes), 0
    states = RandomStates(KernelEvaluator(bound, H200, AnalyticalModel(H200), SearchSettings()))
    expected = interpret(app.build(), inputs)["output"]
    for seed in range(8):
        drawn = states.draw_legal(np.random.default_rng(seed))
        if drawn is not None and each_term(drawn[1]):
            result = ScheduledPipeline(bound, drawn[1], H200).compile("cpu")(inputs)
            assert app.tolerance.mismatch(result, expected) is None
            found += 1
    assert found
