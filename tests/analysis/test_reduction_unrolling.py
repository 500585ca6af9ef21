"""Unrolled reductions and slices: equal bits for any operator, in all backends, with tables as constants."""

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
    exp,
    floor,
    interpret,
    log,
    select,
    sqrt,
)
from autosched import abs as absolute
from autosched import max as larger
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.expressions.table_values import table_value
from autosched.analysis.pipeline_rewrites import InvariantHoisting, ReductionUnrolling, RFactor
from autosched.analysis.rewrites.invariant_hoisting import hoist_invariants
from autosched.analysis.rewrites.reduction_unrolling import unroll_reductions, unrolling_error
from autosched.analysis.rewrites.rfactor import apply_rfactors
from autosched.apps import get_app
from autosched.lang.dtypes import float32, float64, int8, int32, uint8
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.rewrites.reduction_unrolling import unrolling_rewrites
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree, random_inputs

TARGETS = [get_target("cpu"), get_target("h200")]
k, y, x = Var("k"), Var("y"), Var("x")
CHOSEN = ReductionUnrolling("f", 1, "r.x")


def table_of(entry: Callable[[Expr], Expr]) -> Func:
    table = Func("table")
    table[x] = entry(x)
    return table


def reduced(value: Callable[[Func, Expr, Expr], Expr], entry: Callable[[Expr], Expr], terms: int = 5) -> BoundPipeline:
    """Return a reduction over entries of a table that select slices ``g[k]`` of an image; ``value`` gets one."""
    a, f, g, r = Input("a", float32, 2), Func("f"), Func("g"), RDom("r", x=(0, terms))
    table = table_of(entry)
    g[k, y, x] = a.clamped()[y + k, x] * cast(float32, k + 1)
    f[y, x] = 0.5
    at = clamp(table[r.x], 0, 9)
    f[y, x] = value(f, g[at, y, x + r.x], at)
    return bind(Pipeline(f.over(y=(0, 6), x=(0, 9))), {"a": (8, 12)})


def updated_slices() -> BoundPipeline:
    """Slices of which each update writes one, over a part of the rows, from the one before."""
    a, f, g, r, row = Input("a", float32, 2), Func("f"), Func("g"), RDom("r", x=(0, 7)), RDom("row", y=(0, 5))
    g[k, y, x] = a.clamped()[y, x]
    for level in range(1, 4):
        g[level, row.y, x] = larger(g[level - 1, row.y, x], g[level - 1, row.y + level, x])
    f[y, x] = -np.inf
    f[y, x] = larger(f[y, x], g[clamp(table_of(lambda v: (v * v + 1) % 4)[r.x], 0, 3), y, x + r.x])
    return bind(Pipeline(f.over(y=(0, 6), x=(0, 9))), {"a": (8, 12)})


FORMS: dict[str, Callable[[], BoundPipeline]] = {
    "sum": lambda: reduced(lambda f, g, at: f[y, x] + g, lambda v: v % 3),
    "order of a recurrence": lambda: reduced(lambda f, g, at: f[y, x] * 0.75 - g, lambda v: 4 - v),
    "maximum": lambda: reduced(lambda f, g, at: larger(f[y, x], g - 3), lambda v: (v * 7 + 2) % 5),
    "choices by the table": lambda: reduced(lambda f, g, at: select(at > 2, f[y, x] + g, f[y, x] * -1.0), lambda v: v),
    "logarithms": lambda: reduced(
        lambda f, g, at: f[y, x] + g, lambda v: cast(int32, floor(log(cast(float32, 2 * v + 3)) / 0.69314718))
    ),
    "one term": lambda: reduced(lambda f, g, at: f[y, x] + g, lambda v: v + 2, terms=1),
    "updated slices": updated_slices,
}


def assert_same(bound: BoundPipeline, rewritten: BoundPipeline) -> None:
    inputs = random_inputs(bound)
    for name, values in interpret(bound.pipeline, inputs).items():
        got = interpret(rewritten.pipeline, inputs)[name]
        np.testing.assert_array_equal(got, values)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(values))


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    bound = FORMS[name]()
    rewritten = unroll_reductions(bound, [CHOSEN])
    assert rewritten.funcs["f"].is_pure
    assert "table" not in rewritten.funcs and "g" not in rewritten.funcs
    assert_same(bound, rewritten)
    for target in TARGETS:
        for seed in range(2):
            schedule = sample_schedule(rewritten, target, np.random.default_rng(seed), varied=True)
            assert not violations(bound, schedule, target)
            assert from_json(to_json(bound, schedule), bound) == schedule
            assert_backends_agree(rewritten, lower(bound, schedule), emulate=target.kind == "cuda")
        if target.kind == "cuda" and have_nvrtc():
            ScheduledPipeline(bound, schedule, target).compile("cuda")


def test_nan_and_signed_zeros() -> None:
    bound = reduced(lambda f, g, at: larger(f[y, x] * 0, g), lambda v: v % 2)
    rewritten = unroll_reductions(bound, [CHOSEN])
    inputs = {"a": np.where(np.arange(96).reshape(8, 12) % 5, -0.0, np.nan).astype(np.float32)}
    expected, got = (interpret(b.pipeline, inputs)["f"] for b in (bound, rewritten))
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(expected[~np.isnan(expected)]))


def test_slices_with_many_reads_are_funcs() -> None:
    """A slice that is read once or twice is substituted; updates of a range of rows are selections."""
    rewritten = unroll_reductions(updated_slices(), [CHOSEN])
    assert all(f.is_pure for f in rewritten.funcs.values())
    bound = reduced(lambda f, g, at: f[y, x] + g, lambda v: v // 9, terms=12)
    assert set(unroll_reductions(bound, [CHOSEN]).funcs) == {"a_clamped", "g_k0", "f"}


def test_funcs_read_at_other_points_are_not_sliced() -> None:
    a, f, g, r = Input("a", float32, 2), Func("f"), Func("g"), RDom("r", x=(0, 5))
    g[k, x] = a[k, x] + 1
    f[y, x] = 0.0
    f[y, x] += g[clamp(table_of(lambda v: v % 3)[r.x], 0, 3), x] * g[y, x]
    bound = bind(Pipeline(f.over(y=(0, 4), x=(0, 9))), {"a": (4, 9)})
    rewritten = unroll_reductions(bound, [CHOSEN])
    assert "g" in rewritten.funcs
    assert_same(bound, rewritten)


def test_slices_that_read_later_updates_are_not_separated() -> None:
    """Slice 1 reads slice 0 before its update; separate Funcs would read it after."""
    a, f, g, r, row = Input("a", float32, 2), Func("f"), Func("g"), RDom("r", x=(0, 5)), RDom("row", y=(0, 4))
    g[k, y, x] = a.clamped()[y + k, x]
    g[1, row.y, x] = g[0, row.y, x] * 2
    g[0, row.y, x] = a[row.y, x] - 1
    f[y, x] = 0.0
    f[y, x] += g[clamp(table_of(lambda v: v % 2)[r.x], 0, 1), y, x]
    bound = bind(Pipeline(f.over(y=(0, 4), x=(0, 9))), {"a": (4, 9)})
    rewritten = unroll_reductions(bound, [CHOSEN])
    assert "g" in rewritten.funcs
    assert_same(bound, rewritten)


def test_tables_of_inputs_and_parameters_are_no_constants() -> None:
    a, f, r, scale = Input("a", int32, 1), Func("f"), RDom("r", x=(0, 5)), Param("scale", float32, 2.0)
    f[x] = 0
    f[x] += a[clamp(table_of(lambda v: cast(int32, cast(float32, v) * scale))[r.x], 0, 7)] + x
    bound = bind(Pipeline(f.over(x=(0, 9))), {"a": (8,)})
    assert table_value(bound, "table", 0, (2,)) is None
    assert unrolling_rewrites(bound) == []
    rewritten = unroll_reductions(bound, [CHOSEN])
    assert "table" in rewritten.funcs
    assert_same(bound, rewritten)


ENTRIES: dict[str, tuple[Callable[[Expr], Expr], int | float | None]] = {
    "integers": (lambda v: (v * 7 - 3) // 4 % 5, 3),
    "shifts": (lambda v: cast(int32, 1) << v, 32),
    "a narrow integer that wraps": (lambda v: cast(int8, v * 100), None),
    "a logarithm off a step": (lambda v: cast(int32, floor(log(cast(float32, v)) * 10)), 16),
    "a logarithm on a step": (lambda v: cast(int32, floor(log(cast(float32, v - 4)))), None),
    "an exponential": (lambda v: exp(cast(float32, v)), None),
    "an exponential in the other arm": (lambda v: select(v > 4, 7.0, exp(cast(float32, v))), 7.0),
    "rounded floats": (lambda v: cast(float32, v) * 0.1, float(np.float32(5) * np.float32(0.1))),
    "a comparison on a step": (lambda v: select(exp(cast(float32, v - 5)) < 1, 1, 0), None),
    "division by zero": (lambda v: cast(float32, v) / cast(float32, v - 5), None),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_entries(name: str) -> None:
    """Entry 5 of a table is known where no rounding of an elementary function decides it."""
    entry, expected = ENTRIES[name]
    table, f = table_of(entry), Func("f")
    f[x] = table[x]
    assert table_value(bind(Pipeline(f.over(x=(0, 9))), {}), "table", 0, (5,)) == expected


def test_entries_of_reductions() -> None:
    count, f, q = Func("count"), Func("f"), RDom("q", i=(0, 20))
    count[x] = 0
    count[x] += select(cast(float32, x * x + q.i * q.i) < 27.6, 1, 0)
    f[x] = count[x]
    bound = bind(Pipeline(f.over(x=(-6, 7))), {})
    got = [table_value(bound, "count", 0, (i,)) for i in range(-6, 7)]
    assert got == interpret(bound.pipeline, {})["f"].tolist()
    assert table_value(bound, "count", 0, (7,)) is None  # outside of its region


def test_between_hoistings_and_rfactors() -> None:
    a, f, g, r, q = Input("a", float32, 2), Func("f"), Func("g"), RDom("r", x=(0, 5)), RDom("q", x=(0, 64))
    g[y] = 0.0
    g[y] += a[y, q.x]
    f[y, x] = cast(float32, (x * 7 + 3) * (x - 1) % 5) + g[y]
    f[y, x] += a[y, clamp(table_of(lambda v: v * 2)[r.x], 0, 9)]
    bound = bind(Pipeline(f.over(y=(0, 4), x=(0, 9))), {"a": (4, 64)})
    hoisting, factored = InvariantHoisting("f", "x"), RFactor("g", 1, (("q.x", 8),))
    rewritten = apply_rfactors(unroll_reductions(hoist_invariants(bound, [hoisting]), [CHOSEN]), [factored])
    assert rewritten.rewrites == (hoisting, CHOSEN, factored) and rewritten.root_pipeline is bound
    schedule = sample_schedule(rewritten, TARGETS[0], np.random.default_rng(1))
    assert from_json(to_json(bound, schedule), bound) == schedule
    assert "unrolling f.1" in repr(schedule)
    assert_backends_agree(rewritten, lower(bound, schedule), emulate=False)


def refused() -> BoundPipeline:
    a, f, g, r = Input("a", float32, 2), Func("f"), Func("g"), RDom("r", x=(0, 5), y=(0, 3))
    f[y, x] = 0.0
    f[y, x] += a[y + r.y, x + r.x]
    f[y, x] += a[y, x + RDom("s", x=(0, 4)).x]
    g[y, x] = 0.0
    g[y, x] += a[y, x + RDom("t", x=(0, 65)).x]
    h, u = Func("h"), RDom("u", x=(1, 9))
    h[y, x] = a[y, x]
    h[y, u.x] += h[y, u.x - 1]
    return bind(Pipeline([p.over(y=(0, 4), x=(0, 9)) for p in (f, g, h)]), {"a": (6, 80)})


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        (ReductionUnrolling("k", 1, "r.x"), "there is no update 1 of 'k'"),
        (ReductionUnrolling("f", 3, "r.x"), "there is no update 3 of 'f'"),
        (ReductionUnrolling("f", 2, "s.x"), "does not follow a pure definition"),
        (ReductionUnrolling("f", 1, "r.x"), "one is unrolled where it is the only one"),
        (ReductionUnrolling("g", 1, "t.x"), "loop t.x of 'g' has 65 iterations; 1 to 64 are unrolled"),
        (ReductionUnrolling("h", 1, "u.x"), "accesses 'h' at other points than that of its loops"),
    ],
)
def test_errors(chosen: ReductionUnrolling, reason: str) -> None:
    bound = refused()
    assert reason in unrolling_error(bound, chosen)
    with pytest.raises(ScheduleError, match="remove this unrolling, or make a new schedule"):
        unroll_reductions(bound, [chosen])


def test_the_search_unrolls_tables() -> None:
    app = get_app("max_filter")
    inputs = app.make_inputs(app.sizes(app.small_sizes), 0)
    bound = bind(app.configure({"radius": 6})[0], {name: a.shape for name, a in inputs.items()})
    (rewritten,) = unrolling_rewrites(bound)
    assert rewritten.unrollings == (ReductionUnrolling("output", 1, "column.x"),)
    assert not {"half_height", "slice_of", "powers", "vertical"} & set(rewritten.funcs)
    expected = interpret(bound.pipeline, inputs)["output"]
    np.testing.assert_array_equal(interpret(rewritten.pipeline, inputs)["output"], expected)
    assert unrolling_rewrites(reduced(lambda f, g, at: f[y, x] + g, lambda v: v, terms=3)) == []


@pytest.mark.parametrize("kind", ["slice", "table"])
def test_constants_do_not_make_operations_exact(kind: str) -> None:
    """An int32 from a table or a slice has no range: its products with coordinates wrap."""
    k, t, x = Var("k"), Var("t"), Var("x")
    image, table, slices, f = Input("i", uint8, 1), Func("table"), Func("slices"), Func("f")
    r = RDom("r", x=(-2, 3))
    table[k] = cast(int32, (k + 2) % 2 + 1)
    slices[t, x] = cast(int32, image.clamped()[x + t])
    element = slices[clamp(table[r.x], 0, 2), x + r.x]
    f[x] = cast(float64, 0)
    if kind == "slice":
        f[x] += cast(float64, element * x * x * x)
    else:
        f[x] += cast(float64, table[r.x] * x * x * x) + element
    bound = bind(Pipeline(f.over(x=(0, 3000))), {"i": (3000,)})
    assert unrolling_rewrites(bound) == []
    loop = bound.funcs["f"].stages[1].reductions[0].name
    assert "may leave their type" in unrolling_error(bound, ReductionUnrolling("f", 1, loop))


def test_a_zero_of_unknown_sign_is_no_constant() -> None:
    """sqrt may round to either side of 0, so the sign of its product with 0 is unknown."""
    k = Var("k")
    table = Func("table")
    table[k] = sqrt(absolute(cast(float32, k))) * cast(float32, k)
    bound = bind(Pipeline(table.over(k=(-2, 3))), {})
    assert table_value(bound, "table", 0, (0,)) is None
