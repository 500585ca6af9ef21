"""Hoisted invariants: equal bits for weights and positions of one coordinate, in all backends."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched import (
    Expr,
    Func,
    Input,
    Param,
    Pipeline,
    RDom,
    ScheduleError,
    Var,
    cast,
    clamp,
    floor,
    interpret,
    select,
    sqrt,
)
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import Deinterleaving, InvariantHoisting, RFactor
from autosched.analysis.rewrites.deinterleaving import deinterleave_reads
from autosched.analysis.rewrites.invariant_hoisting import hoist_invariants, hoisting_error
from autosched.analysis.rewrites.rfactor import apply_rfactors
from autosched.lang.dtypes import float32, int16, int32, uint8
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.rewrites.invariant_hoisting import hoisting_rewrites
from autosched.search.settings import SearchSettings
from autosched.search.strategies.protocol import Beam
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree, random_inputs
from tests.search.cpu_cases import CPU

TARGETS = [get_target("cpu"), get_target("h200")]
y, x = Var("y"), Var("x")
ALONG_X, ALONG_Y = InvariantHoisting("f", "x"), InvariantHoisting("f", "y")


def scaled(v: Expr) -> Expr:
    """Return a position between pixels."""
    return (cast(float32, v) + 0.5) * 1.375 - 0.5


def weight(v: Expr) -> Expr:
    t = scaled(v) - floor(scaled(v))
    return (t * 0.75 + 0.25) * t - 1


def image_of(
    value: Callable[[Func | Input], Expr], height: int = 5, width: int = 9, columns: int = 14
) -> BoundPipeline:
    """Return a Func of an image of repeated edges."""
    a, f = Input("a", float32, 2), Func("f")
    f[y, x] = value(a)
    return bind(Pipeline(f.over(y=(0, height), x=(0, width))), {"a": (height, columns)})


def position(v: Expr) -> Expr:
    return cast(int32, floor(scaled(v)))


FORMS: dict[str, Callable[[], BoundPipeline]] = {
    "weights of columns": lambda: image_of(lambda a: a[y, x] * weight(x)),
    "weights of both": lambda: image_of(lambda a: a[y, x] * weight(x) + weight(y)),
    "positions": lambda: image_of(lambda a: a[y, position(x)] + a[y, position(x) + 1]),
    "positions and weights": lambda: image_of(lambda a: a[y, position(x)] * weight(x)),
    "clamped positions": lambda: image_of(
        lambda a: a[y, clamp(position(x) - 3, 0, a.shape[1] - 1)] * weight(x), width=20
    ),
    "positions in an image with a border": lambda: image_of(lambda a: a.clamped()[y, position(x) - 3], width=30),
    "one column": lambda: image_of(lambda a: a[y, x] * weight(x), width=1),
    "one row": lambda: image_of(lambda a: a[y, x] * weight(x), height=1),
    "negative square roots": lambda: image_of(lambda a: a[y, x] + sqrt(scaled(x) - 3) * 2),
    "choices": lambda: image_of(lambda a: select(x % 3 == 1, a[y, x], weight(x))),
    "narrow integers": lambda: image_of(
        lambda a: a[y, x] + cast(float32, cast(uint8, cast(int32, scaled(x)) * 77) * 3)
    ),
    "signed zeros": lambda: image_of(lambda a: a[y, x] * 0 + weight(x) * cast(float32, 0) * -1),
}


def assert_same(bound: BoundPipeline, rewritten: BoundPipeline) -> None:
    inputs = random_inputs(bound)
    for name, values in interpret(bound.pipeline, inputs).items():
        got = interpret(rewritten.pipeline, inputs)[name]
        np.testing.assert_array_equal(got, values)
        if values.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(values[~np.isnan(values)]))


def hoistings_of(bound: BoundPipeline) -> list[InvariantHoisting]:
    return [h for h in (ALONG_X, ALONG_Y) if not hoisting_error(bound, h)]


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    bound = FORMS[name]()
    hoistings = hoistings_of(bound)
    assert ALONG_X in hoistings
    rewritten = hoist_invariants(bound, hoistings)
    assert "f_of_x" in rewritten.funcs
    assert_same(bound, rewritten)
    for target in TARGETS:
        for seed in range(2):
            schedule = sample_schedule(rewritten, target, np.random.default_rng(seed), varied=True)
            assert not violations(bound, schedule, target)
            assert from_json(to_json(bound, schedule), bound) == schedule
            assert_backends_agree(rewritten, lower(bound, schedule), emulate=target.kind == "cuda")
        if target.kind == "cuda" and have_nvrtc():
            ScheduledPipeline(bound, schedule, target).compile("cuda")


def test_positions_share_an_entry_of_the_table() -> None:
    bound = image_of(lambda a: a[y, position(x)] + a[y, position(x) + 1] + a[y, position(x) + 2], columns=16)
    rewritten = hoist_invariants(bound, [ALONG_X])
    assert len(rewritten.funcs["f_of_x"].dtypes) == 1


def test_both_coordinates_together_are_no_invariant() -> None:
    bound = image_of(lambda a: a[y, x] + (scaled(x) * cast(float32, y) + 1) * 2)
    assert hoisting_error(bound, ALONG_Y).startswith("no value of 4 operations in 'f' depends on 'y' alone")


def test_updates_and_reductions() -> None:
    """Weights of the loop of a reduction stay; those of the point are hoisted, also from updates."""
    a, f, r = Input("a", int32, 2), Func("f"), RDom("r", k=(0, 6))

    def of(v: Expr) -> Expr:
        return cast(int32, cast(int16, v * 7 + 3) % 5)

    f[y, x] = of(x) * 2 + 1
    f[y, x] += a[y, x + r.k] * of(x) * of(r.k)
    f[y, 2] = f[y, 3] + of(y)
    bound = bind(Pipeline(f.over(y=(0, 5), x=(0, 9))), {"a": (5, 14)})
    rewritten = hoist_invariants(bound, [ALONG_X, ALONG_Y])
    assert_same(bound, rewritten)
    for target in TARGETS:
        schedule = sample_schedule(rewritten, target, np.random.default_rng(1), varied=True)
        assert_backends_agree(rewritten, lower(bound, schedule), emulate=target.kind == "cuda")


def test_parameters() -> None:
    """Parameters of a call may be in weights; positions that depend on them are left."""
    a, f, scale = Input("a", float32, 2), Func("f"), Param("scale", float32)
    f[y, x] = a[y, clamp(cast(int32, floor(scaled(x) * scale)), 0, 8)] * (weight(x) * scale + 1)
    bound = bind(Pipeline(f.over(y=(0, 4), x=(0, 9))), {"a": (4, 9)})
    rewritten = hoist_invariants(bound, [ALONG_X])
    assert len(rewritten.funcs["f_of_x"].dtypes) >= 1
    inputs = {**random_inputs(bound)}
    expected = interpret(bound.pipeline, inputs, {"scale": 0.6})["f"]
    np.testing.assert_array_equal(interpret(rewritten.pipeline, inputs, {"scale": 0.6})["f"], expected)
    schedule = sample_schedule(rewritten, TARGETS[0], np.random.default_rng(1))
    got = ScheduledPipeline(bound, schedule, TARGETS[0], {"scale": 0.6}).compile("cpu")({**inputs, "scale": 0.6})
    np.testing.assert_array_equal(got, expected)


def test_between_deinterleavings_and_rfactors() -> None:
    a, f, r = Input("a", int32, 2), Func("f"), RDom("r", k=(0, 64))
    f[y, x] = 0
    f[y, x] += a[y, 2 * x + r.k] * cast(int32, cast(int16, x * 7 + 3) % 5)
    bound = bind(Pipeline(f.over(y=(0, 5), x=(0, 9))), {"a": (5, 82)})
    chosen, factored = Deinterleaving("f", "a", 2), RFactor("f", 1, (("r.k", 8),))
    rewritten = apply_rfactors(hoist_invariants(deinterleave_reads(bound, [chosen]), [ALONG_X]), [factored])
    assert rewritten.rewrites == (chosen, ALONG_X, factored) and rewritten.root_pipeline is bound
    assert_same(bound, rewritten)
    schedule = sample_schedule(rewritten, TARGETS[0], np.random.default_rng(1))
    assert from_json(to_json(bound, schedule), bound) == schedule
    assert "hoisting of x in f" in repr(schedule)


@pytest.mark.parametrize(
    ("hoisting", "reason"),
    [
        (InvariantHoisting("g", "x"), "there is no Func 'g'"),
        (InvariantHoisting("f", "z"), "'f' has no dimension 'z' besides others"),
        (ALONG_Y, "no value of 4 operations in 'f' depends on 'y' alone"),
    ],
)
def test_errors(hoisting: InvariantHoisting, reason: str) -> None:
    bound = FORMS["weights of columns"]()
    assert hoisting_error(bound, hoisting) == reason
    with pytest.raises(ScheduleError, match="remove this hoisting, or make a new schedule"):
        hoist_invariants(bound, [hoisting])


def test_copies_of_outputs_have_nothing_to_hoist() -> None:
    """The output is a part of a Func that another one needs in full."""
    a, f, g = Input("a", float32, 2), Func("f"), Func("g")
    f[y, x] = a[y, x] * weight(x)
    g[y, x] = f[y, x + 4]
    bound = bind(Pipeline([f.over(y=(0, 5), x=(0, 6)), g.over(y=(0, 5), x=(0, 6))]), {"a": (5, 10)})
    (copy,) = (name for name in bound.funcs if name not in ("f", "g"))
    assert hoisting_error(bound, InvariantHoisting(copy, "x")) == f"there is no Func {copy!r}"
    assert_same(bound, hoist_invariants(bound, [ALONG_X]))


def test_one_dimension_has_nothing_to_share() -> None:
    a, f = Input("a", float32, 1), Func("f")
    f[x] = a[x] * weight(x)
    bound = bind(Pipeline(f.over(x=(0, 9))), {"a": (9,)})
    assert "besides others" in hoisting_error(bound, ALONG_X)
    assert hoisting_rewrites(bound) == []


def test_the_search_hoists_weights() -> None:
    def interpolated(a: Input) -> Expr:
        weights = [weight(x + k) for k in range(4)]
        taps = [a[y, position(x) + k] * (w / sqrt(w * w + 2)) for k, w in enumerate(weights)]
        return taps[0] + taps[1] + taps[2] + taps[3]

    bound = image_of(interpolated, 300, 400, 560)
    (rewritten,) = hoisting_rewrites(bound)
    assert rewritten.hoistings == (ALONG_X,)
    schedule = Beam(SearchSettings(folding=False)).search(bound, CPU).ranked[0].schedule
    assert schedule.hoistings == (ALONG_X,)
    inputs = random_inputs(bound)
    got = ScheduledPipeline(bound, schedule, TARGETS[0]).compile("cpu")(inputs)
    np.testing.assert_array_equal(got, interpret(bound.pipeline, inputs)["f"])
    assert hoisting_rewrites(FORMS["weights of columns"]()) == []  # five rows
