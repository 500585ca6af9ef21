"""Integers in narrower types: the pipelines that result, and the reasons why some Funcs keep their types."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import autosched as a
from autosched import Func, Input, Pipeline, RDom, Var, cast, float32, int16, int32, int64, interpret, uint8, uint16
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.expressions.truncation import evaluate_truncated
from autosched.analysis.pipeline_rewrites import IntegerNarrowing, WindowDoubling
from autosched.analysis.rewrites.integer_narrowing import narrow_integers, narrowing_error
from autosched.analysis.rewrites.window_doubling import double_windows
from autosched.analysis.value_ranges import value_ranges
from autosched.errors import ScheduleError
from autosched.lang.dtypes import ALL, DType
from autosched.lang.expr import Expr
from autosched.lang.idioms import window_sum
from autosched.lang.to_text import expression_text
from autosched.search.rewrites.integer_narrowing import narrowed
from autosched.search.rewrites.window_doubling import window_rewrites

y, x = Var("y"), Var("x")


def gray(bordered: bool = False) -> BoundPipeline:
    """Return a mean of three channels in 32 bits, and differences of neighbours."""
    i, f, g = Input("i", uint8, 2), Func("f"), Func("g")
    f[x] = (77 * cast(int32, i[0, x]) + 150 * cast(int32, i[1, x]) + 29 * cast(int32, i[2, x]) + 128) >> 8
    read = f.clamped(x=(0, 16)) if bordered else f
    g[x] = cast(float32, read[x]) - cast(float32, read[x + 1])
    return bind(Pipeline(g.over(x=(0, 15))), {"i": (3, 16)})


def types_of(bound: BoundPipeline) -> dict[str, str]:
    return {name: " ".join(d.name for d in f.dtypes) for name, f in bound.funcs.items()}


def assert_equal_values(bound: BoundPipeline, narrow: BoundPipeline) -> None:
    rng = np.random.default_rng(0)
    inputs: dict[str, np.ndarray[Any, Any]] = {
        i.name: rng.integers(0, 256, i.shape).astype(i.dtype.numpy) for i in bound.inputs.values()
    }
    for name, values in interpret(bound.pipeline, inputs).items():
        np.testing.assert_array_equal(interpret(narrow.pipeline, inputs)[name], values)


def test_values_are_stored_narrow_and_widened_where_they_are_read() -> None:
    bound = gray()
    narrow = narrowed(bound)
    assert types_of(bound)["f"] == "int32" and types_of(narrow) == {"f": "uint8", "g": "float32"}
    assert expression_text(narrow.funcs["g"].stages[0].values[0]) == "float32(f[x]) - float32(f[x + 1])"
    assert narrow.root_pipeline is bound and narrow.rewrites == (IntegerNarrowing(("f",)),)
    assert narrow_integers(bound, [IntegerNarrowing(("f",))]) is narrow
    assert narrowed(narrow.root_pipeline) is narrow
    assert_equal_values(bound, narrow)


def test_boundary_conditions_are_narrowed_with_their_source() -> None:
    bound = gray(bordered=True)
    narrow = narrowed(bound)
    assert types_of(narrow) == {"f": "uint8", "f_clamped": "uint8", "g": "float32"}
    assert narrow.funcs["f_clamped"].boundary == bound.funcs["f_clamped"].boundary
    assert "does not have the same narrow type" in narrowing_error(bound, IntegerNarrowing(("f",)))
    assert_equal_values(bound, narrow)


def test_a_wide_border_keeps_its_source_wide() -> None:
    i, f, g = Input("i", uint8, 1), Func("f"), Func("g")
    f[x] = cast(int32, i[x])
    g[x] = f.constant(-1, x=(0, 16))[x - 1] * 2
    bound = bind(Pipeline(g.over(x=(0, 17))), {"i": (16,)})
    narrow = narrowed(bound)
    assert {types_of(narrow)["f"], types_of(narrow)["f_constant"]} == {"int32", "int16"}
    assert_equal_values(bound, narrow)


@pytest.mark.parametrize(("radius", "total"), [(7, "uint16"), (31, "int32")])
def test_sums_of_windows_are_narrow_as_long_as_they_fit(radius: int, total: str) -> None:
    """15 x 15 bytes reach 57375; of 63 x 63, rows of 63 bytes fit 16 bits, and 3 but not 9 of these."""
    size = 2 * radius + 1
    columns = window_sum(Input("i", uint8, 2).clamped(), name="columns", dtype=int32, y=size)
    whole, out = window_sum(columns, name="total", dtype=int32, x=size), Func("out")
    out[y, x] = whole[y, x] + 1
    bound = bind(Pipeline(out.over(y=(0, 70), x=(0, 70))), {"i": (70, 70)})
    (windowed,) = window_rewrites(bound)
    narrow = narrowed(windowed)
    types = types_of(narrow)
    assert types["columns"] == "uint16" and types["total"] == total
    shorter = {name: t for name, t in types.items() if "_w" in name}
    assert shorter and {t for name, t in shorter.items() if name.startswith("columns")} == {"uint16"}
    assert shorter.get("total_w3", "uint16") == "uint16" and shorter.get("total_w9", "int32") == "int32"
    assert_equal_values(bound, narrow)


def test_windows_alone_are_narrow() -> None:
    i, f, r = Input("i", uint8, 1), Func("f"), RDom("r", k=128)
    f[x] = cast(int64, 0)
    f[x] += cast(int64, i[x + r.k])
    bound = bind(Pipeline(f.over(x=(0, 8))), {"i": (135,)})
    windowed = double_windows(bound, [WindowDoubling("f", 1, "r.k")])
    assert {t for name, t in types_of(windowed).items() if name != "f"} == {"uint16"}
    assert types_of(windowed)["f"] == "int64"
    assert_equal_values(bound, windowed)


def refused() -> BoundPipeline:
    i, out, f, g, h, r = Input("i", uint8, 1), Func("out"), Func("f"), Func("g"), Func("h"), RDom("r", k=3)
    f[x] = cast(int32, 0)
    f[x] += cast(int32, i[x + r.k])
    g[x] = cast(int32, i[x]) * (1 << 23)
    h[x] = cast(int32, i[x])
    out[x] = f[x] + g[x] + h[x]
    return bind(Pipeline([out.over(x=(0, 8)), h.over(x=(0, 8))]), {"i": (16,)})


@pytest.mark.parametrize(
    ("funcs", "message"),
    [
        ((), "a narrowing lists at least one Func, each once"),
        (("f", "f"), "a narrowing lists at least one Func, each once"),
        (("nothing",), "there is no Func 'nothing'"),
        (("f",), "'f' has updates, or no values"),
        (("g",), "no narrower type holds the values of 'g'"),
        (("h",), "'h' is an output, whose type is fixed"),
    ],
)
def test_refused_narrowings(funcs: tuple[str, ...], message: str) -> None:
    bound = refused()
    assert narrowing_error(bound, IntegerNarrowing(funcs)) == message
    with pytest.raises(ScheduleError, match=message):
        narrow_integers(bound, [IntegerNarrowing(funcs)])
    assert narrowed(bound) is bound


@pytest.mark.parametrize(("factor", "dtype"), [(1, "uint8"), (2, "uint16"), (257, "uint16"), (258, "int32")])
def test_limits_of_types(factor: int, dtype: str) -> None:
    """257 * 255 is the greatest number of 16 bits; a type that is as wide as before is none that is narrower."""
    i, f, g = Input("i", uint8, 1), Func("f"), Func("g")
    f[x] = cast(int32, i[x]) * factor
    g[x] = f[x] - 1
    bound = bind(Pipeline(g.over(x=(0, 256))), {"i": (256,)})
    narrow = narrowed(bound)
    assert types_of(narrow)["f"] == dtype
    inputs = {"i": np.arange(256, dtype=np.uint8)}
    np.testing.assert_array_equal(
        interpret(narrow.pipeline, inputs)["g"], interpret(bound.pipeline, inputs)["g"]
    )  # fmt: skip


OPERATIONS: list[tuple[Callable[[Expr, Expr], Expr], str]] = [
    (lambda v, w: v + w * 3 - 7, "uint16(i) + uint16(j) * 3 - 7"),
    (lambda v, w: -(v & w) ^ ~v, "-(uint16(i) & uint16(j)) ^ ~uint16(i)"),
    (lambda v, w: a.min(v, w + 1), "min(uint16(i), uint16(j) + 1)"),
    (lambda v, w: (v + w) >> 1, "uint16(i) + uint16(j) >> 1"),
    (lambda v, w: (v * w * w) >> 1, "uint16(int32(i) * int32(j) * int32(j) >> 1)"),  # high bits count
    (lambda v, w: a.max(v * w * w, 5), "uint16(max(int32(i) * int32(j) * int32(j), 5))"),
    (lambda v, w: v // 3 + w, "uint16(int32(i) // 3) + uint16(j)"),
    (lambda v, w: a.select(v > w, v * 256, w), "select(int32(i) > int32(j), uint16(i) * 256, uint16(j))"),
    (lambda v, w: cast(int32, cast(int16, v * w)) << 2, "uint16(i) * uint16(j) << 2"),
]


@pytest.mark.parametrize(("operation", "text"), OPERATIONS)
def test_truncated_evaluation(operation: Callable[[Expr, Expr], Expr], text: str) -> None:
    i, j, f, g = Input("i", uint8, 1), Input("j", uint8, 1), Func("f"), Func("g")
    f[x] = operation(cast(int32, i[x]), cast(int32, j[x]))
    bound = bind(Pipeline(f.over(x=(0, 65536))), {"i": (65536,), "j": (65536,)})
    stage = bound.funcs["f"].stages[0]
    truncated = evaluate_truncated(stage.values[0], uint16, lambda e: value_ranges(bound).of(stage, e))
    assert expression_text(truncated).replace("[x]", "") == text
    g[x] = truncated
    pairs = np.array(list(itertools.product(range(256), repeat=2)), np.uint8)
    inputs = {"i": pairs[:, 0], "j": pairs[:, 1]}
    low = interpret(Pipeline(g.over(x=(0, 65536))), inputs)["g"]
    np.testing.assert_array_equal(low, interpret(bound.pipeline, inputs)["f"].astype(np.uint16))


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        (lambda v, w: (v + w) >> 1, "uint8(uint16(i) + uint16(j) >> 1)"),
        (lambda v, w: v * 77 + w, "uint8(uint16(i) * 77) + j"),
        (lambda v, w: a.min(v * 3, w + 9) >> 2, "uint8(min(uint16(i) * 3, uint16(j) + 9) >> 2)"),
        (lambda v, w: a.max(v, w) + 1, "max(i, j) + 1"),
        (lambda v, w: (v * v * w) >> 17, "uint8(int32(i) * int32(i) * int32(j) >> 17)"),
    ],
)
def test_operations_that_need_more_bits_are_evaluated_in_a_type_between(
    operation: Callable[[Expr, Expr], Expr], text: str
) -> None:
    i, j, f, g = Input("i", uint8, 1), Input("j", uint8, 1), Func("f"), Func("g")
    f[x] = operation(cast(int32, i[x]), cast(int32, j[x]))
    bound = bind(Pipeline(f.over(x=(0, 65536))), {"i": (65536,), "j": (65536,)})
    stage = bound.funcs["f"].stages[0]
    g[x] = truncated = evaluate_truncated(stage.values[0], uint8, lambda e: value_ranges(bound).of(stage, e))
    assert expression_text(truncated).replace("[x]", "") == text
    pairs = np.array(list(itertools.product(range(256), repeat=2)), np.uint8)
    inputs = {"i": pairs[:, 0], "j": pairs[:, 1]}
    low = interpret(Pipeline(g.over(x=(0, 65536))), inputs)["g"]
    np.testing.assert_array_equal(low, interpret(bound.pipeline, inputs)["f"].astype(np.uint8))


@pytest.mark.parametrize("dtype", [d for d in ALL if d.is_int])
def test_elements_of_every_type_are_widened(dtype: DType) -> None:
    i, f, g = Input("i", dtype, 1), Func("f"), Func("g")
    wide = int64 if dtype.name != "uint64" else dtype
    f[x] = cast(wide, i[x])
    g[x] = f[x] // 3
    bound = bind(Pipeline(g.over(x=(0, 5))), {"i": (5,)})
    narrow = narrowed(bound)
    assert types_of(narrow)["f"] == dtype.name
    values = np.array([dtype.min_value, dtype.max_value, 0, 1, dtype.max_value - 1], dtype.numpy)
    np.testing.assert_array_equal(
        interpret(narrow.pipeline, {"i": values})["g"], interpret(bound.pipeline, {"i": values})["g"]
    )


def coordinate_uses(kind: str) -> BoundPipeline:
    """Return operations of a sum of two bytes, which is an int32, with coordinates: they wrap."""
    image, f, out = Input("i", uint8, 1), Func("f"), Func("out")
    f[x] = cast(int32, image[x]) + image[x + 1]
    cubes = f[x] * x * x * x
    values = {
        "store": cubes, "float": cast(a.float64, cubes), "wider": cast(int64, cubes), "compare": cubes > 0,
        "shift": cast(int64, (f[x] * x) << 24), "data": f[x] * f[x] * f[x] * f[x] * f[x],
    }  # fmt: skip
    out[x] = values[kind]
    return bind(Pipeline(out.over(x=(0, 2999))), {"i": (3000,)})


@pytest.mark.parametrize("kind", ["store", "float", "wider", "compare", "shift", "data"])
def test_operations_with_coordinates_still_wrap(kind: str) -> None:
    """Elements of 32 bits have no range, so that operations on them wrap; a narrow element would have one."""
    bound = coordinate_uses(kind)
    narrow = narrowed(bound)
    assert types_of(narrow)["f"] == "int32"
    assert "may leave their type" in narrowing_error(bound, IntegerNarrowing(("f",)))
    assert_equal_values(bound, narrow)


def test_operations_that_fit_are_narrow() -> None:
    image, f, out = Input("i", uint8, 1), Func("f"), Func("out")
    f[x] = cast(int32, image[x]) + image[x + 1]
    out[x] = f[x] * x
    bound = bind(Pipeline(out.over(x=(0, 2999))), {"i": (3000,)})
    narrow = narrowed(bound)
    assert types_of(narrow)["f"] == "uint16"
    assert_equal_values(bound, narrow)


@pytest.mark.parametrize("scale", [0.5, 2.5])
def test_conversions_that_saturate_stay(scale: float) -> None:
    """uint8 of a negative number is 0; the int8 that holds all results has other values there."""
    image, f, out = Input("i", int16, 1), Func("f"), Func("out")
    low = a.clamp(cast(float32, image[x]) * scale, -64.0, 63.5)
    f[x] = cast(int32, cast(uint8, low)) - 1
    out[x] = f[x] + f[x + 1] * 1000
    bound = bind(Pipeline(out.over(x=(0, 199))), {"i": (200,)})
    narrow = narrowed(bound)
    assert types_of(narrow)["f"] == "int8"
    values = np.random.default_rng(1).integers(-300, 300, 200).astype(np.int16)
    expected = interpret(bound.pipeline, {"i": values})["out"]
    np.testing.assert_array_equal(interpret(narrow.pipeline, {"i": values})["out"], expected)


def test_saturating_terms_of_windows_stay() -> None:
    image, out = Input("i", int16, 1), Func("out")
    r = RDom("r", k=15)
    low = a.clamp(cast(float32, image[x + r.k]) * 0.5, -64.0, 63.5)
    out[x] = a.sum(cast(int32, cast(uint8, low)) - 1, over=r)
    bound = bind(Pipeline(out.over(x=(0, 100))), {"i": (115,)})
    (windows,) = window_rewrites(bound)
    values = np.random.default_rng(2).integers(-300, 300, 115).astype(np.int16)
    expected = interpret(bound.pipeline, {"i": values})["out"]
    np.testing.assert_array_equal(interpret(windows.pipeline, {"i": values})["out"], expected)


@pytest.mark.parametrize("kind", ["not", "bounded"])
def test_ranges_through_other_operations_count(kind: str) -> None:
    """A complement of narrow elements has a range, as has a number between one and a constant."""
    image, other, f, out = Input("i", uint8, 1), Input("o", int32, 1), Func("f"), Func("out")
    f[x] = cast(int32, image[x]) + image[x + 1]
    value = ~f[x] if kind == "not" else a.min(a.max(other[x], f[x]), 600)
    out[x] = cast(int64, value * x * x * x)
    bound = bind(Pipeline(out.over(x=(0, 2999))), {"i": (3000,), **({"o": (3000,)} if kind == "bounded" else {})})
    assert types_of(narrowed(bound))["f"] == "int32"
