"""Windows by recursive doubling: equal values for all operators and lengths, in all backends; NaNs stay in windows."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from autosched import Expr, Func, Input, Param, Pipeline, RDom, ScheduleError, Var, cast, clamp, interpret, max, undef
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import RFactor, WindowDoubling
from autosched.analysis.rewrites.rfactor import apply_rfactors
from autosched.analysis.rewrites.window_doubling import double_windows, window_error, window_lengths
from autosched.lang.dtypes import as_dtype, float32, int32
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.io.text import schedule_text
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.rewrites.window_doubling import window_rewrites
from autosched.search.strategies.protocol import Beam
from autosched.target import get_target
from tests.schedule.warp_reduction_cases import OPERATORS

CPU = get_target("cpu")
Arrays = dict[str, NDArray[Any]]
y, x = Var("y"), Var("x")
ALONG_X, ALONG_Y = WindowDoubling("f", 1, "r.x"), WindowDoubling("f", 1, "r.y")
KINDS = [
    *((op, d) for op in OPERATORS for d in ("uint8", "int16", "int32", "uint64")),
    *((op, d) for op in ("min", "max") for d in ("float16", "float32", "float64")),
]


def row_window(
    first: int = -3, length: int = 7, op: str = "max", dtype: str = "float32",
    element: Callable[[Expr], Expr] = lambda e: e, width: int = 21, at: Callable[[Expr], Expr] = lambda r: x + r,
) -> BoundPipeline:  # fmt: skip
    """Return a window along the rows of an image with repeated edges; ``at`` gives the column of an iteration."""
    kind = as_dtype(dtype)
    a, f, r = Input("a", kind, 2), Func("f"), RDom("r", x=(first, first + length))
    row = a.clamped()
    f[y, x] = cast(kind, 1)
    f[y, x] = cast(kind, OPERATORS[op](f[y, x], element(row[y, at(r.x)])))
    return bind(Pipeline(f.over(y=(0, 3), x=(0, width))), {"a": (3, width)})


def square_window(height: int, width: int, dtype: str = "int32", op: str = "add") -> BoundPipeline:
    """Return a window over both dimensions of an image."""
    kind = as_dtype(dtype)
    a, f = Input("a", kind, 2), Func("f")
    r = RDom("r", y=(0, height), x=(0, width))
    f[y, x] = cast(kind, 0)
    f[y, x] = cast(kind, OPERATORS[op](f[y, x], a[y + r.y, x + r.x]))
    return bind(Pipeline(f.over(y=(0, 9), x=(0, 11))), {"a": (8 + height, 10 + width)})


def data_of(bound: BoundPipeline) -> Arrays:
    (a,) = bound.inputs.values()
    values = np.random.default_rng(a.shape[1]).random(a.shape) * 200 - 100 * (a.dtype.kind != "u")
    return {"a": values.astype(a.dtype.numpy)}


@pytest.mark.parametrize(("op", "dtype"), KINDS)
def test_all_operators_and_types(op: str, dtype: str) -> None:
    bound = row_window(-5, 13, op, dtype)
    inputs = data_of(bound)
    windowed = double_windows(bound, [ALONG_X])
    np.testing.assert_array_equal(interpret(windowed.pipeline, inputs)["f"], interpret(bound.pipeline, inputs)["f"])


@pytest.mark.parametrize("length", [2, 3, 4, 5, 6, 7, 8, 15, 16, 17, 31, 63, 64, 65, 100])
@pytest.mark.parametrize("op", ["min", "add"])
def test_all_lengths(op: str, length: int) -> None:
    for first in (-length, 0, 3):
        bound = row_window(first, length, op, "int32")
        inputs = data_of(bound)
        expected = interpret(bound.pipeline, inputs)["f"]
        np.testing.assert_array_equal(interpret(double_windows(bound, [ALONG_X]).pipeline, inputs)["f"], expected)


@pytest.mark.parametrize("size", [(5, 7), (4, 16), (1, 9), (9, 1)])
@pytest.mark.parametrize("op", ["add", "max", "xor"])
def test_square_windows_in_either_order(op: str, size: tuple[int, int]) -> None:
    bound = square_window(*size, op=op)
    inputs = data_of(bound)
    expected = interpret(bound.pipeline, inputs)["f"]
    windows = [w for w, n in ((ALONG_X, size[1]), (ALONG_Y, size[0])) if n > 1]
    for chosen in (windows, windows[::-1], windows[:1]):
        np.testing.assert_array_equal(interpret(double_windows(bound, chosen).pipeline, inputs)["f"], expected)


@pytest.mark.parametrize(
    "at", [lambda r: x - r, lambda r: x + 3 - r, lambda r: 5 - (r - x), lambda r: x + 2 * r - 3 * r]
)
@pytest.mark.parametrize(("op", "length"), [("add", 13), ("xor", 16), ("max", 31), ("min", 2), ("mul", 63)])
def test_mirrored_windows(op: str, length: int, at: Callable[[Expr], Expr]) -> None:
    for first in (-length, -4, 3):
        bound = row_window(first, length, op, "int32", at=at)
        inputs = data_of(bound)
        expected = interpret(bound.pipeline, inputs)["f"]
        np.testing.assert_array_equal(interpret(double_windows(bound, [ALONG_X]).pipeline, inputs)["f"], expected)


def test_convolutions_without_weights_are_windows() -> None:
    """Both loops run against their dimensions, one of them with an offset that is a parameter."""
    a, f, shift = Input("a", int32, 2), Func("f"), Param("shift", int32)
    r = RDom("r", y=(0, 9), x=(-4, 7))
    f[y, x] = 0
    f[y, x] += a[y + shift - r.y, x - r.x + 6]
    bound = bind(Pipeline(f.over(y=(0, 5), x=(0, 12))), {"a": (13, 22)}, {"shift": 8})
    inputs = data_of(bound)
    expected = interpret(bound.pipeline, inputs, {"shift": 8})["f"]
    for windows in ([ALONG_X], [ALONG_Y], [ALONG_X, ALONG_Y], [ALONG_Y, ALONG_X]):
        got = interpret(double_windows(bound, windows).pipeline, inputs, {"shift": 8})["f"]
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("length", "alone", "overlapping"),
    [
        (3, (), ()),
        (4, (2,), (4,)),
        (7, (2,), (4,)),
        (15, (3,), (4,)),
        (31, (5,), (4, 16)),
        (63, (7,), (4, 16)),
        (127, (3, 18), (4, 16, 64)),
        (255, (5, 25), (4, 16, 64)),
    ],
)
def test_lengths_of_shorter_windows(length: int, alone: tuple[int, ...], overlapping: tuple[int, ...]) -> None:
    assert window_lengths(length, overlap=False) == alone
    assert window_lengths(length, overlap=True) == overlapping


def test_each_length_divides_the_next() -> None:
    for length in (*range(2, 300), 997, 65521, 65536):
        for overlap in (False, True):
            lengths = (1, *window_lengths(length, overlap=overlap))
            assert all(m % n == 0 and n < m for n, m in itertools.pairwise(lengths))
            assert lengths[-1] <= length


@pytest.mark.parametrize("op", ["add", "min"])
def test_the_rewritten_func_is_pure(op: str) -> None:
    """A Func whose first definition is at the window's own points can be inlined into its consumers."""
    bound = square_window(9, 31, op=op)
    one, both = (double_windows(bound, windows) for windows in ([ALONG_X], [ALONG_X, ALONG_Y]))
    assert (len(one.funcs["f"].stages), len(both.funcs["f"].stages)) == (2, 1)
    inputs = data_of(bound)
    np.testing.assert_array_equal(interpret(both.pipeline, inputs)["f"], interpret(bound.pipeline, inputs)["f"])


def test_later_windows_of_a_func() -> None:
    """The second window of a Func is its first update once the first window is part of its definition."""
    a, f = Input("a", int32, 1), Func("f")
    r, s = RDom("r", x=(0, 9)), RDom("s", x=(-8, 3))
    f[x] = x * 3
    f[x] += a[x + r.x]
    f[x] = max(f[x], a[x + 2 - s.x])
    f[0] = 7
    bound = bind(Pipeline(f.over(x=(0, 12))), {"a": (22,)})
    (windowed,) = window_rewrites(bound)
    assert windowed.windows == (WindowDoubling("f", 1, "r.x"), WindowDoubling("f", 1, "s.x"))
    inputs = {"a": np.random.default_rng(2).integers(-99, 99, 22).astype(np.int32)}
    np.testing.assert_array_equal(interpret(windowed.pipeline, inputs)["f"], interpret(bound.pipeline, inputs)["f"])
    schedule = sample_schedule(windowed, CPU, np.random.default_rng(1))
    assert from_json(to_json(bound, schedule), bound) == schedule


def test_undefined_values_stay_outside() -> None:
    a, f, r = Input("a", int32, 1), Func("f"), RDom("r", x=(0, 9))
    f[x] = undef(int32)
    f[x] = 5
    f[x] += a[x + r.x]
    bound = bind(Pipeline(f.over(x=(0, 12))), {"a": (20,)})
    windowed = double_windows(bound, [WindowDoubling("f", 2, "r.x")])
    inputs = {"a": np.arange(20, dtype=np.int32)}
    np.testing.assert_array_equal(interpret(windowed.pipeline, inputs)["f"], interpret(bound.pipeline, inputs)["f"])


@pytest.mark.parametrize("length", [7, 31, 63, 100])
def test_windows_without_nan_are_finite(length: int) -> None:
    """Whatever the neighbours hold: NaN, infinities and numbers whose sum overflows."""
    bound = row_window(0, length, "add", "float32", width=3 * length)
    finite = np.ones((3, 3 * length), np.float32)
    for outside in (np.nan, np.inf, -np.inf, np.finfo(np.float32).max):
        image = finite.copy()
        image[:, :length] = image[:, 2 * length :] = outside
        for windows in ([], [ALONG_X]):
            schedule = sample_schedule(double_windows(bound, windows), CPU, np.random.default_rng(length))
            got = ScheduledPipeline(bound, schedule, CPU).compile("cpu")({"a": image})
            np.testing.assert_array_equal(np.asarray(got)[:, length], 1 + np.float32(length))


def test_elements_that_are_computed_are_computed_once() -> None:
    bound = row_window(0, 16, "add", "float64", element=lambda e: e * e)
    windowed = double_windows(bound, [ALONG_X])
    assert [name for name in windowed.funcs if name.startswith("f_w")] == ["f_w1", "f_w4"]
    inputs = data_of(bound)
    np.testing.assert_allclose(
        interpret(windowed.pipeline, inputs)["f"], interpret(bound.pipeline, inputs)["f"], rtol=1e-12
    )


def test_a_nan_stays_in_its_windows() -> None:
    bound = row_window(0, 9, "add", "float32")
    inputs = data_of(bound)
    inputs["a"][1, 12] = np.nan
    inputs["a"][2, 3] = np.inf
    got = interpret(double_windows(bound, [ALONG_X]).pipeline, inputs)["f"]
    expected = interpret(bound.pipeline, inputs)["f"]
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(expected))
    assert np.isnan(got[1]).sum() == 9 and np.isfinite(got[1]).sum() == 12


def test_windows_come_before_rfactors() -> None:
    bound = square_window(300, 8)
    windowed = double_windows(bound, [ALONG_X])
    both = apply_rfactors(windowed, [RFactor("f", 1, (("r.y", 20),))])
    assert both.rewrites == (ALONG_X, RFactor("f", 1, (("r.y", 20),)))
    assert both.root_pipeline is bound and both.before_rfactor is windowed
    schedule = sample_schedule(both, CPU, np.random.default_rng(1))
    assert from_json(to_json(bound, schedule), bound) == schedule
    inputs = data_of(bound)
    expected = interpret(bound.pipeline, inputs)["f"]
    np.testing.assert_array_equal(ScheduledPipeline(bound, schedule, CPU).compile("cpu")(inputs), expected)


def weighted() -> BoundPipeline:
    """Return a window whose elements have weights."""
    a, w, f, r = Input("a", float32, 2), Input("w", float32, 1), Func("f"), RDom("r", x=(0, 9))
    f[y, x] = 0.0
    f[y, x] += a[y, x + r.x] * w[r.x]
    return bind(Pipeline(f.over(y=(0, 3), x=(0, 4))), {"a": (3, 12), "w": (9,)})


def strided() -> BoundPipeline:
    a, f, r = Input("a", float32, 2), Func("f"), RDom("r", x=(0, 9))
    f[y, x] = 0.0
    f[y, x] += a[y, 2 * x + r.x]
    return bind(Pipeline(f.over(y=(0, 3), x=(0, 4))), {"a": (3, 15)})


def folded() -> BoundPipeline:
    """Return sums of elements before and after each point."""
    a, f, r = Input("a", float32, 2), Func("f"), RDom("r", x=(0, 9))
    f[y, x] = 0.0
    f[y, x] += a[y, x + r.x] + a[y, x - r.x + 8]
    return bind(Pipeline(f.over(y=(0, 3), x=(0, 4))), {"a": (3, 12)})


def positioned() -> BoundPipeline:
    a, f, r = Input("a", float32, 2), Func("f"), RDom("r", x=(0, 9))
    f[y, x] = 0.0
    f[y, x] += a[y, x + r.x] * cast(float32, x)
    return bind(Pipeline(f.over(y=(0, 3), x=(0, 4))), {"a": (3, 12)})


def hidden(of: Callable[[Expr, Expr], Expr]) -> BoundPipeline:
    """Return a reduction with weights whose index depends on a loop only by way of a floating-point number."""
    a, w, f, r = Input("a", float32, 2), Input("w", float32, 1), Func("f"), RDom("r", x=(0, 9))
    f[y, x] = 0.0
    f[y, x] += a[y, x + r.x] * w[clamp(cast(int32, cast(float32, of(x, r.x)) * 0.5), 0, 8)]
    return bind(Pipeline(f.over(y=(0, 3), x=(0, 4))), {"a": (3, 12), "w": (9,)})


@pytest.mark.parametrize("loops", [2, 3])
def test_several_loops_along_one_dimension(loops: int) -> None:
    a, f = Input("a", int32, 1), Func("f")
    r = RDom("r", **{name: (0, 7 + k) for k, name in enumerate("uvw"[:loops])})
    at = x
    for loop in r:
        at = at + loop
    f[x] = 0
    f[x] += a[at]
    bound = bind(Pipeline(f.over(x=(0, 12))), {"a": (40,)})
    (windowed,) = window_rewrites(bound)
    assert len(windowed.windows) == loops
    inputs = {"a": np.random.default_rng(2).integers(0, 99, 40).astype(np.int32)}
    expected = interpret(bound.pipeline, inputs)["f"]
    for k in range(1, loops + 1):
        some = double_windows(bound, windowed.windows[:k])
        np.testing.assert_array_equal(interpret(some.pipeline, inputs)["f"], expected)


@pytest.mark.parametrize(
    "case",
    [
        weighted,
        strided,
        folded,
        positioned,
        lambda: hidden(lambda point, loop: loop),
        lambda: hidden(lambda point, loop: point),
    ],
)
def test_reductions_that_are_no_windows(case: Callable[[], BoundPipeline]) -> None:
    bound = case()
    assert window_error(bound, ALONG_X) == "loop r.x of 'f' does not move along a dimension of 'f'"
    with pytest.raises(ScheduleError, match="remove this window, or make a new schedule"):
        double_windows(bound, [ALONG_X])
    assert window_rewrites(bound) == []


def test_errors_name_the_loop() -> None:
    bound = row_window()
    assert window_error(bound, WindowDoubling("f", 1, "q.x")) == "update 1 of 'f' has no loop 'q.x'; it has r.x"
    assert window_error(bound, WindowDoubling("f", 2, "r.x")) == "there is no update 2 of 'f'"
    assert "has 1 iterations; a window has 2" in window_error(square_window(4, 1), ALONG_X)


def test_short_windows_are_not_searched() -> None:
    assert window_rewrites(row_window(length=2)) == []
    assert window_rewrites(row_window(length=3))
    (windowed,) = window_rewrites(square_window(7, 9))
    assert windowed.windows == (ALONG_X, ALONG_Y)


def test_the_search_chooses_long_windows() -> None:
    bound = row_window(-15, 31, "min", "uint8", width=4096)
    schedule: Schedule = Beam().search(bound, CPU).ranked[0].schedule
    assert schedule.windows == (ALONG_X,) and "f_w16" in schedule_text(bound, schedule)
    inputs = data_of(bound)
    expected = interpret(bound.pipeline, inputs)["f"]
    np.testing.assert_array_equal(ScheduledPipeline(bound, schedule, CPU).compile("cpu")(inputs), expected)
