"""Scans by blocks: equal values for all operators, types, lengths and directions; recurrences; refused updates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from autosched import Func, Input, Param, Pipeline, RDom, ScheduleError, Var, cast, interpret, select, undef
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import RFactor, ScanBlocking
from autosched.analysis.rewrites.rfactor import apply_rfactors
from autosched.analysis.rewrites.scan_blocking import block_scans, scan_error
from autosched.apps import get_app
from autosched.lang.dtypes import as_dtype, float32, int32
from autosched.lang.functions import clamp
from autosched.lang.idioms import cumsum
from autosched.schedule.io.serialise import to_json
from autosched.schedule.types import Schedule
from autosched.search.rewrites.scan_blocking import scan_rewrites
from autosched.target import get_target
from tests.schedule.warp_reduction_cases import OPERATORS

Arrays = dict[str, NDArray[Any]]
y, x = Var("y"), Var("x")
SCAN = ScanBlocking("f", 1, 8)
KINDS = [
    *((op, d) for op in OPERATORS for d in ("uint8", "int16", "int32", "uint64")),
    *((op, d) for op in ("min", "max") for d in ("float16", "float32", "float64")),
]


def line(length: int = 40, op: str = "add", dtype: str = "int32", *, backwards: bool = False) -> BoundPipeline:
    """Return a scan along the rows of an image."""
    kind = as_dtype(dtype)
    a, f, r = Input("a", kind, 2), Func("f"), RDom("r", x=(1, length))
    at, before = (length - 1 - r.x, length - r.x) if backwards else (r.x, r.x - 1)
    f[y, x] = a[y, x]
    f[y, at] = cast(kind, OPERATORS[op](f[y, before], f[y, at]))
    return bind(Pipeline(f.over(y=(0, 3), x=(0, length))), {"a": (3, length)})


def recurrence(weight: Any, dtype: str = "float64", length: int = 40, params: Any = None) -> BoundPipeline:
    """Return a linear recurrence along the rows of an image."""
    kind = as_dtype(dtype)
    a, f, r = Input("a", kind, 2), Func("f"), RDom("r", x=(1, length))
    f[y, x] = undef(kind)
    f[y, 0] = a[y, 0]
    f[y, r.x] = weight * f[y, r.x - 1] + a[y, r.x]
    return bind(Pipeline(f.over(y=(0, 3), x=(0, length))), {"a": (3, length)}, params)


def data_of(bound: BoundPipeline) -> Arrays:
    (a,) = bound.inputs.values()
    values = np.random.default_rng(a.shape[1]).random(a.shape) * 200 - 100 * (a.dtype.kind != "u")
    return {"a": values.astype(a.dtype.numpy)}


def assert_equal(bound: BoundPipeline, scans: list[ScanBlocking], inputs: Arrays | None = None) -> BoundPipeline:
    """Check the values of the rewritten pipeline, and return it."""
    inputs = data_of(bound) if inputs is None else inputs
    blocked = block_scans(bound, scans)
    for name, values in interpret(bound.pipeline, inputs).items():
        np.testing.assert_array_equal(interpret(blocked.pipeline, inputs)[name], values)
    return blocked


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(("op", "dtype"), KINDS)
def test_all_operators_and_types(op: str, dtype: str, backwards: bool) -> None:
    bound = line(37, op, dtype, backwards=backwards)
    for scan in (SCAN, ScanBlocking("f", 1, 12, 3)):
        assert_equal(bound, [scan])


@pytest.mark.parametrize("length", [3, 4, 7, 8, 9, 16, 33, 100])
@pytest.mark.parametrize(("block", "chunk"), [(2, 0), (4, 2), (5, 0), (32, 8), (66, 3)])
def test_all_lengths(length: int, block: int, chunk: int) -> None:
    bound = line(length)
    if block < 2 * length:
        assert_equal(bound, [ScanBlocking("f", 1, block, chunk)])
    else:
        assert "give 2 to" in scan_error(bound, ScanBlocking("f", 1, block, chunk))


def test_many_blocks_have_a_serial_carry() -> None:
    blocked = assert_equal(line(400), [ScanBlocking("f", 1, 2)])
    assert [len(f.stages) for name, f in blocked.funcs.items() if name == "f_carry"] == [2]
    again = ScanBlocking("f_carry", 1, 9)
    assert "f_carry_total" in assert_equal(line(400), [ScanBlocking("f", 1, 2), again]).funcs


def test_several_dimensions_and_stages() -> None:
    a = Input("a", int32, 2)
    box = {"y": (0, 20), "x": (0, 33)}
    table = bind(Pipeline(cumsum(a, name="t", **box).over(**box)), {"a": (20, 33)})
    assert_equal(table, [ScanBlocking("t_x", 1, 10, 5), ScanBlocking("t", 1, 6)])
    f, r, s = Func("f"), RDom("r", y=(1, 20)), RDom("s", x=(1, 33))
    f[y, x] = a[y, x]
    f[r.y, x] += f[r.y - 1, x]
    f[y, s.x] += f[y, s.x - 1]
    both = bind(Pipeline(f.over(**box)), {"a": (20, 33)})
    assert_equal(both, [ScanBlocking("f", 1, 6), ScanBlocking("f", 1, 8)])


@pytest.mark.parametrize("weight", [0.5, 1.0, -0.75, 0.0, 1.5])
@pytest.mark.parametrize("block", [2, 7, 16, 39])
def test_recurrences(weight: float, block: int) -> None:
    bound = recurrence(weight)
    inputs = data_of(bound)
    blocked = block_scans(bound, [ScanBlocking("f", 2, block)])
    got, expected = (interpret(p.pipeline, inputs)["f"] for p in (blocked, bound))
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "uint64"])
def test_recurrences_of_integers_are_exact(dtype: str) -> None:
    assert_equal(recurrence(cast(as_dtype(dtype), 3), dtype), [ScanBlocking("f", 2, 6)])


def second_order(
    one: Any, two: Any, dtype: str = "float64", *, backwards: bool = False, length: int = 41
) -> BoundPipeline:  # fmt: skip
    """Return a recurrence of second order along the rows of an image."""
    kind = as_dtype(dtype)
    a, f, r = Input("a", kind, 2), Func("f"), RDom("r", x=(2, length))
    f[y, x] = a[y, x]
    at, *earlier = (length - 1 - r.x + n if backwards else r.x - n for n in range(3))
    f[y, at] = a[y, at] + one * f[y, earlier[0]] + two * f[y, earlier[1]]
    return bind(Pipeline(f.over(y=(0, 3), x=(0, length))), {"a": (3, length)})


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("weights", [(1.2, -0.5), (0.0, 0.75), (1.0, 1.0)])
@pytest.mark.parametrize("doubled", [False, True])
@pytest.mark.parametrize("block", [2, 7, 20, 60])
def test_recurrences_of_second_order(
    weights: tuple[float, float], block: int, doubled: bool, backwards: bool
) -> None:  # fmt: skip
    bound = second_order(*weights, backwards=backwards)
    inputs = data_of(bound)
    got = interpret(block_scans(bound, [ScanBlocking("f", 1, block, doubled=doubled)]).pipeline, inputs)["f"]
    expected = interpret(bound.pipeline, inputs)["f"]
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", ["uint8", "int32", "uint64"])
@pytest.mark.parametrize("doubled", [False, True])
@pytest.mark.parametrize("block", [2, 5, 8, 40])
def test_recurrences_of_second_order_of_integers_are_exact(dtype: str, block: int, doubled: bool) -> None:
    kind = as_dtype(dtype)
    assert_equal(second_order(cast(kind, 3), cast(kind, 5), dtype), [ScanBlocking("f", 1, block, doubled=doubled)])


@pytest.mark.parametrize("doubled", [False, True])
def test_zeros_stay_zero_in_recurrences_of_second_order(doubled: bool) -> None:
    bound = second_order(1e20, 1e20)
    inputs = {"a": np.zeros((3, 41))}
    assert_equal(bound, [ScanBlocking("f", 1, 4, doubled=doubled)], inputs)


def test_carries_of_long_recurrences_of_second_order_are_doubled_on_a_gpu() -> None:
    bound = second_order(0.5, -0.25, length=100_000)
    (blocked,) = scan_rewrites(bound, get_target("h200"))
    assert [s.doubled for s in blocked.scans] == [True] and "f_carry1024" in blocked.funcs
    (on_cpu,) = scan_rewrites(bound, get_target("cpu"))
    assert [s.doubled for s in on_cpu.scans] == [False]
    assert scan_error(line(), ScanBlocking("f", 1, 8, doubled=True)) == (
        "'f' is no recurrence of second order: leave out doubled"
    )


def test_two_earlier_elements_alone_are_a_recurrence() -> None:
    a, f, r = Input("a", int32, 2), Func("f"), RDom("r", x=(2, 40))
    f[y, x] = a[y, x]
    f[y, r.x] = f[y, r.x] + f[y, r.x - 2]
    assert_equal(bind(Pipeline(f.over(y=(0, 3), x=(0, 40))), {"a": (3, 40)}), [ScanBlocking("f", 1, 7)])


def _recurrence_of(form: str) -> BoundPipeline:
    a, w, f, r = Input("a", float32, 2), Param("w", float32, 0.25), Func("f"), RDom("r", x=(1, 40))
    f[y, x] = a[y, x]
    before, own = f[y, r.x - 1], f[y, r.x]
    f[y, r.x] = {
        "lerp": lambda: before + w * (own - before),
        "negative": lambda: own - w * before,
        "twice": lambda: 2 * (w * before - own),
        "row": lambda: before * a[y, 0] * 0.01 + own,
    }[form]()
    return bind(Pipeline(f.over(y=(0, 3), x=(0, 40))), {"a": (3, 40)})


@pytest.mark.parametrize("form", ["lerp", "negative", "twice", "row"])
def test_forms_of_recurrences(form: str) -> None:
    bound = _recurrence_of(form)
    inputs = data_of(bound)
    got = interpret(block_scans(bound, [SCAN]).pipeline, inputs)["f"]
    np.testing.assert_allclose(got, interpret(bound.pipeline, inputs)["f"], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("weight", [1e-3, 1e3, -1e3, 0.0])
@pytest.mark.parametrize("start", [0.0, np.inf, -np.inf, np.nan, 1.0])
def test_powers_that_overflow_or_underflow(weight: float, start: float) -> None:
    """A zero before a block stays zero and an infinity infinite, whatever the power of the weight."""
    w = Param("w", float32, 1.0)
    bound = recurrence(w, "float32")
    inputs: Arrays = {"a": np.zeros((3, 40), np.float32), "w": np.float32(weight)}
    inputs["a"][:, 0] = start
    arrays, params = {"a": inputs["a"]}, {"w": weight}
    blocked = block_scans(bound, [ScanBlocking("f", 2, 16)])
    got, expected = (interpret(p.pipeline, arrays, params)["f"] for p in (blocked, bound))
    assert (np.isnan(got) == np.isnan(expected)).all()
    np.testing.assert_allclose(got, expected, rtol=1e-4)


def test_nan_and_infinity_stay_behind_their_element() -> None:
    bound = line(40, "add", "float32")
    inputs = data_of(bound)
    inputs["a"][1, 21], inputs["a"][2, 9] = np.nan, np.inf
    for scan in (SCAN, ScanBlocking("f", 1, 12, 3)):
        got = interpret(block_scans(bound, [scan]).pipeline, inputs)["f"]
        assert np.isfinite(got[1, :21]).all() and np.isnan(got[1, 21:]).all()
        assert np.isfinite(got[2, :9]).all() and np.isposinf(got[2, 9:]).all()


def test_points_outside_of_the_scan_keep_their_values() -> None:
    a, f, r = Input("a", int32, 2), Func("f"), RDom("r", x=(6, 30))
    f[y, x] = a[y, x] * 2
    f[y, r.x] += f[y, r.x - 1]
    bound = bind(Pipeline(f.over(y=(0, 3), x=(0, 40))), {"a": (3, 40)})
    assert_equal(bound, [SCAN])


def test_later_stages_are_unchanged() -> None:
    a, f, r = Input("a", int32, 2), Func("f"), RDom("r", x=(1, 40))
    f[y, x] = a[y, x]
    f[y, r.x] += f[y, r.x - 1]
    f[y, 5] = 3
    f[y, x] = f[y, x] + 1
    assert_equal(bind(Pipeline(f.over(y=(0, 3), x=(0, 40))), {"a": (3, 40)}), [SCAN])


def test_tuples() -> None:
    a, f, r = Input("a", int32, 2), Func("f"), RDom("r", x=(1, 40))
    f[y, x] = (a[y, x], a[y, x] + 1)
    f[y, r.x] = (f[y, r.x - 1][0] + f[y, r.x][0], select(f[y, r.x - 1][1] > 0, 1, 0))
    assert "neither" in scan_error(bind(Pipeline(f.over(y=(0, 3), x=(0, 40))), {"a": (3, 40)}), SCAN)
    g = Func("f")
    g[y, x] = (a[y, x], a[y, x] + 1)
    g[y, r.x] = (g[y, r.x - 1][0] + g[y, r.x][0], g[y, r.x - 1][1] ^ g[y, r.x][1])
    assert_equal(bind(Pipeline(g.over(y=(0, 3), x=(0, 40))), {"a": (3, 40)}), [SCAN])


def _update(kind: str) -> BoundPipeline:
    a, f = Input("a", float32, 2), Func("f")
    r = RDom("r", y=(1, 9), x=(1, 9)) if kind == "two loops" else RDom("r", x=(1, 9))
    f[y, x] = a[y, x]
    if kind == "two loops":
        f[r.y, r.x] = f[r.y - 1, r.x] + a[r.y, r.x]
    elif kind == "three before":
        f[y, r.x + 2] = f[y, r.x - 1] + a[y, r.x]
    elif kind == "two reads":
        f[y, r.x] = f[y, r.x - 1] * f[y, r.x - 1] + a[y, r.x]
    elif kind == "weight by element":
        f[y, r.x] = f[y, r.x - 1] * a[y, r.x] + 1
    elif kind == "index by float":
        f[y, clamp(cast(int32, cast(float32, r.x)), 1, 9)] = f[y, clamp(r.x - 1, 0, 8)] + 1
    elif kind == "stride":
        f[y, 2 * r.x] = f[y, 2 * r.x - 1] + 1
    elif kind == "other row":
        f[0, r.x] = f[1, r.x - 1] + 1
    return bind(Pipeline(f.over(y=(0, 10), x=(0, 20))), {"a": (10, 20)})


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("two loops", "a scan has one"), ("three before", "neither"), ("two reads", "neither"),
        ("weight by element", "neither"), ("index by float", "does not write"), ("stride", "does not write"),
        ("other row", "does not write"),
    ],
)  # fmt: skip
def test_refused_updates(kind: str, reason: str) -> None:
    bound = _update(kind)
    assert reason in scan_error(bound, ScanBlocking("f", 1, 4))
    with pytest.raises(ScheduleError, match="remove this scan"):
        block_scans(bound, [ScanBlocking("f", 1, 4)])
    assert not scan_rewrites(bound, get_target("h200"))


@pytest.mark.parametrize(
    ("scan", "reason"),
    [
        (ScanBlocking("g", 1, 4), "there is no update"), (ScanBlocking("f", 2, 4), "there is no update"),
        (ScanBlocking("f", 1, 1), "give 2 to 79"), (ScanBlocking("f", 1, 80), "give 2 to 79"),
        (ScanBlocking("f", 1, 8, 3), "give a divisor"), (ScanBlocking("f", 1, 8, 8), "give a divisor"),
    ],
)  # fmt: skip
def test_refused_blocks(scan: ScanBlocking, reason: str) -> None:
    assert reason in scan_error(line(), scan)


def test_values_of_the_loop_variable() -> None:
    f, r = Func("f"), RDom("r", x=(3, 40))
    f[y, x] = 7
    f[y, r.x] = f[y, r.x - 1] + cast(int32, r.x) * y
    assert_equal(bind(Pipeline(f.over(y=(0, 3), x=(0, 40))), {}), [SCAN], {})


def test_order_of_rewrites_and_files() -> None:
    bound = line(400)
    blocked = block_scans(bound, [ScanBlocking("f", 1, 40, 5)])
    factored = apply_rfactors(blocked, [RFactor("f_total", 1, (("elements.i", 8),))])
    assert factored.rewrites == (*blocked.scans, *factored.rfactors) and factored.root_pipeline is bound
    assert block_scans(factored, blocked.scans) is blocked
    schedule = Schedule.for_pipeline(factored, [])
    assert schedule.scans == blocked.scans and schedule.reassociates and "scan by blocks f.1" in repr(schedule)
    assert '"chunk": 5' in to_json(bound, schedule)


def test_search_blocks_long_lines_on_a_processor_with_few() -> None:
    def blocks(lines: int) -> list[tuple[ScanBlocking, ...]]:
        a = Input("a", float32, 2)
        sums = cumsum(a, name="f", x=(0, 10_000)).over(y=(0, lines), x=(0, 10_000))
        return [b.scans for b in scan_rewrites(bind(Pipeline(sums), {"a": (lines, 10_000)}), processor)]

    processor = replace(get_target("cpu"), multiprocessors=4)
    assert blocks(1) == [(ScanBlocking("f", 1, 512),)] and blocks(16) == []


def test_search_blocks_recursive_filters_in_both_directions() -> None:
    app = get_app("iir_blur")
    (blocked,) = scan_rewrites(bind(app.build(), {"input": (3, 2560, 1536)}), get_target("h200"))
    assert [(s.func, s.stage) for s in blocked.scans] == [
        ("blur_columns", 2), ("blur_columns", 1), ("blur_rows", 2), ("blur_rows", 1),
    ]  # fmt: skip
    assert not scan_rewrites(bind(app.build(), {"input": (3, 2560, 1536)}), get_target("cpu"))


@pytest.mark.parametrize("op", ["min", "max"])
def test_nan_in_minima_and_maxima(op: str) -> None:
    bound = line(40, op, "float32")
    inputs = data_of(bound)
    inputs["a"][1, 21], inputs["a"][2, 0] = np.nan, np.nan
    for scan in (SCAN, ScanBlocking("f", 1, 12, 3)):
        assert_equal(bound, [scan], inputs)


@pytest.mark.parametrize("column", [0, 5, 39])
def test_a_column_is_set_before_the_scan(column: int) -> None:
    a, f, r = Input("a", int32, 2), Func("f"), RDom("r", x=(1, 40))
    f[y, x] = a[y, x]
    f[y, column] = 3
    f[y, r.x] += f[y, r.x - 1]
    assert_equal(bind(Pipeline(f.over(y=(0, 3), x=(0, 40))), {"a": (3, 40)}), [ScanBlocking("f", 2, 8)])


def test_scans_after_other_updates() -> None:
    a, f, r, s = Input("a", int32, 2), Func("f"), RDom("r", x=(1, 40)), RDom("s", k=9)
    f[y, x] = a[y, x]
    f[y, x] += a[y, s.k] * x
    f[y, r.x] += f[y, r.x - 1]
    f[y, 39 - r.x] += f[y, 40 - r.x]
    bound = bind(Pipeline(f.over(y=(0, 3), x=(0, 40))), {"a": (3, 40)})
    assert_equal(bound, [ScanBlocking("f", 2, 8)])
    assert_equal(bound, [ScanBlocking("f", 3, 8)])
    assert_equal(bound, [ScanBlocking("f", 2, 8), ScanBlocking("f", 1, 12, 3)])


def test_types_wider_than_the_stored_one() -> None:
    a, f, r = Input("a", int32, 2), Func("f"), RDom("r", x=(1, 40))
    f[y, x] = cast("uint8", a[y, x])
    f[y, r.x] = cast("uint8", cast(int32, f[y, r.x - 1]) + a[y, r.x])
    assert_equal(bind(Pipeline(f.over(y=(0, 3), x=(0, 40))), {"a": (3, 40)}), [SCAN])


def test_a_clamped_sum_is_no_scan() -> None:
    a, f, r = Input("a", int32, 2), Func("f"), RDom("r", x=(1, 40))
    f[y, x] = a[y, x]
    f[y, r.x] = clamp(f[y, r.x - 1] + a[y, r.x], 0, 255)
    assert "neither" in scan_error(bind(Pipeline(f.over(y=(0, 3), x=(0, 40))), {"a": (3, 40)}), SCAN)
