"""Reduction domains, and the Funcs that reductions over them make."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import autosched as a
from autosched import Func, Input, Param, Pipeline, RDom, Var, float16, float32, int16, int32, int64, interpret, uint8
from autosched.lang.dtypes import ALL, DType, bool_
from autosched.lang.expr import Load

x, y = Var("x"), Var("y")
NUMBERS = [d for d in ALL if d != bool_]


def made(e: Any) -> Func:
    """Return the Func that a reduction made."""
    load = e[0] if isinstance(e, tuple) else e
    assert isinstance(load, Load) and isinstance(load.source, Func)
    return load.source


def computed(f: Func, *arrays: np.ndarray[Any, Any], **box: Any) -> np.ndarray[Any, Any]:
    pipeline = Pipeline(f.over(**box) if box else f)
    inputs = {i.name: array for i, array in zip(pipeline.inputs, arrays, strict=True)}
    return next(iter(interpret(pipeline, inputs, {}).values()))


def test_loops() -> None:
    r = RDom("r", y=(-1, 2), x=3, c=Param("n", int16))
    assert [v.name for v in r] == [v.name for v in r.vars] == ["r.y", "r.x", "r.c"]
    assert len(r) == 3 and r[1] is r.x is r.vars[1]
    assert repr(r) == "RDom('r', y=(-1, 2), x=(0, 3), c=(0, n))"
    assert [v.order for v in r] == sorted(v.order for v in r)
    assert r.x.order < RDom(x=3).x.order
    with pytest.raises(AttributeError, match="no dimension 'z'"):
        _ = r.z
    assert not hasattr(r, "__deepcopy__")


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_reductions_start_with_their_neutral_element(dtype: DType) -> None:
    img, r = Input("img", dtype, 1), RDom("r", k=3)
    low, high = (float("-inf"), float("inf")) if dtype.is_float else (dtype.min_value, dtype.max_value)
    for reduce, name, first in (
        (a.sum, "sum", 0), (a.prod, "prod", 1), (a.maximum, "max", low), (a.minimum, "min", high),
    ):  # fmt: skip
        f = made(reduce(img[x + r.k], over=r))
        assert f.name == name and f.dtypes == (dtype,)
        assert f.definitions[0].values[0].value == first  # type: ignore[attr-defined]
        assert f.definitions[1].rvars == r.vars


def test_sum_of_weak_values_is_int32() -> None:
    r = RDom("r", k=3)
    assert a.sum(r.k, over=r).dtype == int32
    assert a.sum(r.k * 0.5, over=r).dtype == float32


def test_definition_of_a_sum() -> None:
    img, r = Input("img", float32, 2), RDom("r", k=3)
    f = made(a.sum(img[y, x + r.k], over=r, name="row"))
    assert repr(f) == "row[y, x] = 0.0\nrow[y, x] = row[y, x] + img[y, x + r.k]"


def test_every_loop_of_the_domain_runs_even_if_it_is_not_mentioned() -> None:
    r = RDom("r", y=4, x=(2, 5))
    f = Func("f")
    f[x] = a.sum(a.cast(int32, 1), over=r) + 100 * a.sum(r.x, over=r)
    assert computed(f, x=(0, 1)).tolist() == [12 + 100 * 4 * (2 + 3 + 4)]


def test_update_runs_the_loops_it_mentions() -> None:
    r = RDom("r", y=4, x=3)
    f = Func("f")
    f[x] = 0
    f[x] = f[x] + r.x
    assert f.definitions[1].rvars == (r.x,)


def test_loops_run_in_the_order_of_their_domains() -> None:
    late, early = RDom("early", x=2), RDom("late", y=2, x=2)
    late, early = early, late
    f = Func("f")
    f[x] = 0
    f[x] = late.x + early.x + late.y
    assert [v.name for v in f.definitions[1].rvars] == ["early.x", "late.y", "late.x"]


def test_nested_reductions_take_outer_loops_as_dimensions() -> None:
    img = Input("img", int32, 2)
    rows, columns = RDom("rows", y=3), RDom("columns", x=(1, 4))
    inner = a.sum(img[rows.y, columns.x + x], over=columns)
    f = Func("f")
    f[x] = a.sum(inner * rows.y, over=rows)
    assert made(inner).dims == ("x", "rows_y")
    array = np.arange(21, dtype=np.int32).reshape(3, 7)
    expected = [sum(array[j, k + i] * j for j in range(3) for k in range(1, 4)) for i in range(3)]
    assert computed(f, array, x=(0, 3)).tolist() == expected


def test_dimension_for_an_outer_loop_gets_a_free_name() -> None:
    img, rows, r = Input("img", int32, 2), RDom("rows", y=3), RDom("r", k=2)
    rows_y = Var("rows_y")
    assert made(a.sum(img[rows.y, r.k] + rows_y, over=r)).dims == ("rows_y", "rows_y_")


@pytest.mark.parametrize("unroll", [False, True])
@pytest.mark.parametrize(
    ("name", "fold"), [("sum", np.sum), ("prod", np.prod), ("maximum", np.max), ("minimum", np.min)]
)
def test_unrolled_reductions_compute_the_same(name: str, fold: Any, unroll: bool) -> None:
    img, r = Input("img", int32, 2), RDom("r", y=(-1, 2), x=(0, 3))
    f = Func("f")
    f[y, x] = getattr(a, name)(img[y + r.y, x + r.x], over=r, unroll=unroll)
    array = np.random.default_rng(0).integers(-9, 9, (6, 7), np.int32)
    windows = np.lib.stride_tricks.sliding_window_view(array, (3, 3))
    assert (computed(f, array, y=(1, 5), x=(0, 5)) == fold(windows, axis=(2, 3))).all()
    assert len(Pipeline(f.over(y=(1, 5), x=(0, 5))).funcs) == (1 if unroll else 2)


def test_unrolled_terms_come_in_domain_order() -> None:
    img, r = Input("img", float16, 2), RDom("r", y=2, x=(3, 5))
    assert repr(a.sum(img[r.y, r.x], over=r, unroll=True)) == "img[0, 3] + img[0, 4] + img[1, 3] + img[1, 4]"
    assert repr(a.maximum(r.x * x, over=r, unroll=True).a) == "max(max(int32(3 * x), int32(4 * x)), int32(3 * x))"  # type: ignore[attr-defined]


def test_empty_domain_leaves_the_neutral_element() -> None:
    img, r = Input("img", uint8, 1), RDom("r", k=(5, 5))
    f = Func("f")
    f[x] = (a.sum(img[r.k], over=r), a.minimum(img[r.k], over=r), a.prod(img[r.k], over=r, unroll=True))
    pipeline = Pipeline(f.over(x=(0, 1)))
    values = interpret(pipeline, {"img": np.ones(10, np.uint8)}, {})
    assert [int(v[0]) for v in values.values()] == [0, 255, 1]


@pytest.mark.parametrize(("name", "best"), [("argmax", max), ("argmin", min)])
def test_first_of_several_extremes(name: str, best: Any) -> None:
    img, r = Input("img", int32, 2), RDom("r", y=(1, 4), x=(0, 5))
    array = np.random.default_rng(1).integers(0, 4, (4, 5), np.int32)
    f = Func("f")
    f[()] = getattr(a, name)(img[r.y, r.x], over=r)
    assert f.dtypes == (int32, int32, int32)
    values = interpret(Pipeline(f), {"img": array}, {})
    points = list(itertools.product(range(1, 4), range(5)))
    extreme = best(int(array[p]) for p in points)
    first = next(p for p in points if array[p] == extreme)
    assert [int(v) for v in values.values()] == [*first, extreme]


def test_coordinates_of_extremes_are_int32_whatever_the_bounds() -> None:
    img, r = Input("img", uint8, 1), RDom("r", k=(Param("low", int64), 9))
    assert [e.dtype for e in a.argmin(img[r.k], over=r)] == [int32, uint8]


def test_name_of_a_reduction() -> None:
    img, r = Input("img", float32, 1), RDom("r", k=3)
    assert made(a.maximum(img[r.k], over=r)).name == "max"
    assert made(a.argmin(img[r.k], over=r, name="nearest")).name == "nearest"
