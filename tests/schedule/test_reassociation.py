"""Reassociated floating-point reductions, and the comparison of their results."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, exp, interpret, maximum, minimum, select
from autosched import sum as sum_over
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.agreement import comparison_for, same_bits, same_values
from autosched.lang.expr import Expr
from autosched.lower.program import lower
from autosched.runtime.backends.emulator import EmulatedExecutable
from autosched.schedule.reassociation import reassociated_operators, shows_zero_signs
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.sampling.random_warp_reduction import Lanes
from autosched.schedule.types import Schedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target

H200 = get_target("h200")
y = Var("y")
IMAGE = Input("image", "float32", 2)
TERMS = RDom("k", x=96)
EXTREMA = {"min": minimum, "max": maximum}


def rows(value: Expr, name: str = "found") -> Pipeline:
    found = Func(name)
    found[y] = value
    return Pipeline(found.over(y=(0, 12)))


def with_lanes(bound: BoundPipeline, lanes: Lanes) -> Iterator[Schedule]:
    """Yield random schedules with warp reductions of floating-point terms."""
    for seed in range(60):
        schedule = sample_schedule(bound, H200, np.random.default_rng(seed), varied=True, lanes=lanes)
        if reassociated_operators(bound, schedule):
            yield schedule


@pytest.mark.parametrize("op", EXTREMA)
def test_extrema_are_shared_and_agree_by_value(op: str) -> None:
    pipeline = rows(EXTREMA[op](IMAGE[y, TERMS.x], TERMS))
    bound = bind(pipeline, {"image": (12, 96)})
    rng = np.random.default_rng(0)
    image = rng.choice(np.float32([-0.0, 0.0, 1.0, -1.0]), (12, 96), p=(0.45, 0.45, 0.05, 0.05)).astype(np.float32)
    image[3:9] = np.abs(image[3:9]) * (1 if op == "min" else -1) * rng.choice([-0.0, 0.0], (6, 96)).astype(np.float32)
    image[4, 50] = image[5, 7] = np.nan
    expected = interpret(pipeline, {"image": image})["found"]
    assert np.isnan(expected).sum() == 2
    found = list(with_lanes(bound, "exact"))
    for seed, schedule in enumerate(found[:6]):
        assert reassociated_operators(bound, schedule) == {op}
        assert comparison_for(bound, schedule) is same_values
        out = np.full(12, 7, np.float32)
        EmulatedExecutable(lower(bound, schedule), seed=seed).run({"image": image}, {"found": out}, {})
        assert same_values(out, expected).all()
    assert len(found) >= 6


def test_sums_are_shared_only_where_rounding_may_differ() -> None:
    bound = bind(rows(sum_over(IMAGE[y, TERMS.x], over=TERMS)), {"image": (12, 96)})
    assert not list(with_lanes(bound, "exact"))
    shared = next(with_lanes(bound, "all"))
    assert reassociated_operators(bound, shared) == {"add"}
    assert comparison_for(bound, shared) is None


def test_integers_and_whole_reductions_agree_in_every_bit() -> None:
    whole = bind(rows(maximum(IMAGE[y, TERMS.x], TERMS)), {"image": (12, 96)})
    assert comparison_for(whole, schedule_roots(whole, H200)) is same_bits
    counts = Input("counts", "int32", 2)
    bound = bind(rows(sum_over(counts[y, TERMS.x], over=TERMS)), {"counts": (12, 96)})
    assert not list(with_lanes(bound, "all"))


def test_pipelines_that_show_the_sign_of_zero_are_not_compared() -> None:
    largest, out = Func("largest"), Func("out")
    largest[y] = maximum(IMAGE[y, TERMS.x], TERMS)
    out[y] = 1.0 / largest[y]
    bound = bind(Pipeline(out.over(y=(0, 12))), {"image": (12, 96)})
    assert shows_zero_signs(bound.pipeline)
    assert comparison_for(bound, next(with_lanes(bound, "exact"))) is None
    assert shows_zero_signs(rows(exp(IMAGE[y, 0])))
    assert not shows_zero_signs(rows(select(IMAGE[y, 0] < 0.0, IMAGE[y, 1] * 2.0, abs(IMAGE[y, 2]))))


def test_comparisons() -> None:
    a, b = np.float32([0.0, -0.0, np.nan, 1.0]), np.float32([-0.0, -0.0, np.nan, 2.0])
    assert same_values(a, b).tolist() == [True, True, True, False]
    assert same_bits(a, b).tolist() == [False, True, True, False]
    assert same_values(np.arange(2), np.array([0, 5])).tolist() == [True, False]
