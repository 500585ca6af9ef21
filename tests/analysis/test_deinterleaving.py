"""Deinterleaved reads: equal values for all strides, offsets and sources, in all backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import Expr, Func, Input, Pipeline, RDom, ScheduleError, Var, cast, clamp, interpret
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.analysis.pipeline_rewrites import Deinterleaving, RFactor, WindowDoubling
from autosched.analysis.rewrites.deinterleaving import deinterleave_reads, deinterleaving_error
from autosched.analysis.rewrites.rfactor import apply_rfactors
from autosched.analysis.rewrites.window_doubling import double_windows
from autosched.lang.dtypes import as_dtype, float32, int32, int64, uint8
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.rewrites.deinterleaving import deinterleaving_rewrites
from autosched.search.strategies.protocol import Beam
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree, random_inputs

TARGETS = [get_target("cpu"), get_target("h200")]
y, x = Var("y"), Var("x")


def strided_sum(
    at: Callable[[Expr, Expr], Expr] = lambda v, k: 2 * v + k, *, width: int = 11, taps: tuple[int, int] = (0, 3),
    columns: int = 24, dtype: str = "int32", border: str = "none", height: int = 3,
) -> BoundPipeline:  # fmt: skip
    """Return sums of some elements of a row; ``at`` gives the column of an iteration."""
    kind = as_dtype(dtype)
    a, f, r = Input("a", kind, 2), Func("f"), RDom("r", x=taps)
    source = {"none": lambda: a, "clamped": a.clamped, "constant": lambda: a.constant(7), "mirrored": a.mirrored}
    f[y, x] = cast(kind, 0)
    f[y, x] = cast(kind, f[y, x] + source[border]()[y, at(x, r.x)])
    return bind(Pipeline(f.over(y=(0, height), x=(0, width))), {"a": (height, columns)})


def source_of(bound: BoundPipeline) -> str:
    return next(s for s in bound.funcs["f"].stages[1].sources if s != "f")


def assert_same(bound: BoundPipeline, rewritten: BoundPipeline) -> None:
    inputs = random_inputs(bound)
    for name, values in interpret(bound.pipeline, inputs).items():
        np.testing.assert_array_equal(interpret(rewritten.pipeline, inputs)[name], values)


FORMS: dict[str, tuple[int, dict[str, Any]]] = {
    "every second": (2, {}),
    "odd number of columns": (2, {"columns": 23}),
    "dilated": (2, {"at": lambda v, k: 2 * v + 2 * k - 2, "border": "constant", "columns": 21}),
    "every third": (3, {"at": lambda v, k: 3 * v + k, "columns": 33}),
    "another stride than the reads": (4, {"at": lambda v, k: 4 * v - 5 * k + 10, "columns": 51}),
    "backwards": (2, {"at": lambda v, k: 20 - 2 * v + k, "columns": 23}),
    "before the first column": (2, {"at": lambda v, k: 2 * v + k - 5, "border": "clamped", "columns": 9}),
    "mirrored": (3, {"at": lambda v, k: 3 * v - k - 2, "border": "mirrored", "columns": 17}),
    "one point": (2, {"width": 1, "columns": 3}),
    "one tap": (2, {"taps": (2, 3)}),
    "no taps": (2, {"taps": (0, 0)}),
    "one row": (2, {"height": 1}),
    "bytes": (2, {"dtype": "uint8"}),
    "quotients": (2, {"at": lambda v, k: 2 * v + k // 2, "taps": (0, 6)}),
    "through a wide type": (2, {"at": lambda v, k: cast(int64, 2 * v + k)}),
    "a clamped index": (2, {"at": lambda v, k: 2 * v + clamp(k, 0, 1)}),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    stride, form = FORMS[name]
    bound = strided_sum(**form)
    chosen = Deinterleaving("f", source_of(bound), stride)
    rewritten = deinterleave_reads(bound, [chosen])
    assert_same(bound, rewritten)
    for target in TARGETS:
        for seed in range(3):
            schedule = sample_schedule(rewritten, target, np.random.default_rng(seed), varied=True)
            assert not violations(bound, schedule, target)
            assert from_json(to_json(bound, schedule), bound) == schedule
            assert_backends_agree(rewritten, lower(bound, schedule), emulate=target.kind == "cuda")
        if target.kind == "cuda" and have_nvrtc():
            ScheduledPipeline(bound, schedule, target).compile("cuda")


@pytest.mark.parametrize("seed", range(20))
def test_random_indices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    stride, of_tap, offset = int(rng.integers(2, 6)), int(rng.integers(-4, 5)), int(rng.integers(-9, 9))
    border = str(rng.choice(["clamped", "constant", "mirrored"]))
    sign = int(rng.choice([-1, 1]))
    bound = strided_sum(
        lambda v, k: sign * stride * v + of_tap * k + offset, width=int(rng.integers(1, 40)),
        taps=(int(rng.integers(-3, 1)), int(rng.integers(1, 5))), columns=int(rng.integers(2, 60)),
        dtype=str(rng.choice(["uint8", "int16", "int32"])), border=border,
    )  # fmt: skip
    rewritten = deinterleave_reads(bound, [Deinterleaving("f", source_of(bound), stride)])
    assert_same(bound, rewritten)
    for target in TARGETS:
        schedule = sample_schedule(rewritten, target, rng, varied=True)
        assert_backends_agree(rewritten, lower(bound, schedule), emulate=target.kind == "cuda")


def test_neighbours_are_neighbours_in_the_copy() -> None:
    bound = strided_sum(lambda v, k: 2 * v + k - 2, border="constant")
    rewritten = deinterleave_reads(bound, [Deinterleaving("f", source_of(bound), 2)])
    stage = rewritten.funcs["f"].stages[1]
    (load,) = (load for load, name in stage.loads if name != "f")
    coefficients = {t.name: c for t, c in ix.terms_of(stage.index_of(load.indices[-1])) if isinstance(t, ix.LoopVar)}
    assert coefficients["x"] == 1
    assert "x" not in ix.loop_vars(stage.index_of(load.indices[-2]))  # the remainder depends on the tap alone


def test_nan_and_signed_zeros_are_copied() -> None:
    bound = strided_sum(lambda v, k: 2 * v + k, dtype="float32", taps=(0, 1))
    rewritten = deinterleave_reads(bound, [Deinterleaving("f", "a", 2)])
    a = np.array([[0.0, np.nan, -0.0, np.inf] * 6] * 3, np.float32)
    expected, got = (interpret(b.pipeline, {"a": a})["f"] for b in (bound, rewritten))
    np.testing.assert_array_equal(got.view(np.int32), expected.view(np.int32))
    schedule = sample_schedule(rewritten, TARGETS[0], np.random.default_rng(0))
    compiled = ScheduledPipeline(bound, schedule, TARGETS[0]).compile("cpu")({"a": a})
    np.testing.assert_array_equal(np.asarray(compiled).view(np.int32), expected.view(np.int32))


def test_indices_from_data() -> None:
    """Reads at positions from a table beside the strided one."""
    a, t, f, r = Input("a", float32, 1), Input("t", uint8, 1), Func("f"), RDom("r", x=(0, 3))
    f[x] = 0.0
    f[x] += a[2 * x + r.x] * a[clamp(cast(int32, t[x]), 0, 9)]
    bound = bind(Pipeline(f.over(x=(0, 9))), {"a": (21,), "t": (9,)})
    rewritten = deinterleave_reads(bound, [Deinterleaving("f", "a", 2)])
    assert_same(bound, rewritten)
    for target in TARGETS:
        schedule = sample_schedule(rewritten, target, np.random.default_rng(1))
        assert_backends_agree(rewritten, lower(bound, schedule), emulate=target.kind == "cuda")


def test_sources_with_several_values() -> None:
    a, both, f, r = Input("a", int32, 1), Func("both"), Func("f"), RDom("r", x=(0, 3))
    both[x] = a[x] * 2, a[x] + 1
    f[x] = 0
    f[x] += both[2 * x + r.x][1] - both[2 * x + 1][0]
    bound = bind(Pipeline(f.over(x=(0, 9))), {"a": (19,)})
    assert_same(bound, deinterleave_reads(bound, [Deinterleaving("f", "both", 2)]))


def test_between_windows_and_rfactors() -> None:
    a, b, f, g = Input("a", int32, 1), Func("b"), Func("f"), Func("g")
    r, s = RDom("r", x=(0, 9)), RDom("s", x=(0, 64))
    b[x] = 0
    b[x] += a[x + r.x]
    f[x] = 0
    f[x] += b[2 * x + s.x]
    g[x] = f[x] + b[x]
    bound = bind(Pipeline(g.over(x=(0, 7))), {"a": (90,)})
    window, chosen, factored = (
        WindowDoubling("b", 1, "r.x"),
        Deinterleaving("f", "b", 2),
        RFactor("f", 1, (("s.x", 8),)),
    )
    rewritten = apply_rfactors(deinterleave_reads(double_windows(bound, [window]), [chosen]), [factored])
    assert rewritten.rewrites == (window, chosen, factored) and rewritten.root_pipeline is bound
    assert_same(bound, rewritten)
    schedule = sample_schedule(rewritten, TARGETS[0], np.random.default_rng(1))
    assert from_json(to_json(bound, schedule), bound) == schedule
    assert "deinterleaving b in f" in repr(schedule)
    assert_backends_agree(rewritten, lower(bound, schedule), emulate=False)


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        (Deinterleaving("g", "a", 2), "there is no Func 'g'"),
        (Deinterleaving("f", "b", 2), "'f' does not read 'b'"),
        (Deinterleaving("f", "f", 2), "'f' does not read 'f'"),
        (Deinterleaving("f", "a", 1), "the stride is 1; it is 2 to 16"),
        (Deinterleaving("f", "a", 3), "'f' does not read 'a' with a stride of 3"),
    ],
)
def test_errors(chosen: Deinterleaving, reason: str) -> None:
    bound = strided_sum()
    assert deinterleaving_error(bound, chosen) == reason
    with pytest.raises(ScheduleError, match="remove this deinterleaving, or make a new schedule"):
        deinterleave_reads(bound, [chosen])


def convolution(stride: int, size: int = 40, channels: int = 8) -> BoundPipeline:
    """Return a convolution of several channels."""
    a, w, f = Input("a", float32, 3), Input("w", float32, 4), Func("f")
    o, r = Var("o"), RDom("r", c=channels, y=3, x=3)
    f[o, y, x] = 0.0
    f[o, y, x] += a.constant(0.0)[r.c, stride * y + r.y - 1, stride * x + r.x - 1] * w[o, r.c, r.y, r.x]
    box = {"o": (0, channels), "y": (0, size // stride), "x": (0, size // stride)}
    return bind(Pipeline(f.over(**box)), {"a": (channels, size, size), "w": (channels, channels, 3, 3)})


def test_the_search_deinterleaves_convolutions() -> None:
    bound = convolution(2, 64, 32)
    schedule = Beam().search(bound, TARGETS[0]).ranked[0].schedule
    assert schedule.deinterleavings == (Deinterleaving("f", source_of(bound), 2),)
    inputs = random_inputs(bound)
    expected = interpret(bound.pipeline, inputs)["f"]
    got = ScheduledPipeline(bound, schedule, TARGETS[0]).compile("cpu")(inputs)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-2)


def test_what_is_not_tried() -> None:
    assert not deinterleaving_rewrites(convolution(1))  # no stride
    assert not deinterleaving_rewrites(convolution(5))  # a larger stride
    assert not deinterleaving_rewrites(strided_sum(width=40, columns=90))  # elements are read twice
