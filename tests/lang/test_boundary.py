"""Boundary conditions: their reads, against ``np.pad``, and their errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched import Func, Input, Param, Pipeline, Var, float32, int64, uint8, uint16
from autosched.analysis.bind import bind
from autosched.analysis.indices import index as ix
from autosched.errors import InputError
from autosched.lang.dtypes import DType, int8
from autosched.lang.expr import Load, Select

x, y = Var("x"), Var("y")
MODES = {"clamped": "edge", "mirrored": "symmetric", "mirrored_without_edge": "reflect", "wrapped": "wrap"}
REACH = 40


def reads(f: Func, shapes: dict[str, tuple[int, ...]], params: Any = None) -> np.ndarray[Any, Any]:
    """Return the position that the first load of a 1-D boundary stage reads, for x in -REACH..REACH."""
    bound = bind(Pipeline(f.over(x=(-REACH, REACH + 1))), shapes, params)
    stage = bound.stage(f.name, 0)
    (load,) = {load for load, _ in stage.loads}
    at = ix.evaluate(stage.index_of(load.indices[-1]), {"x": np.arange(-REACH, REACH + 1)})
    return np.broadcast_to(at, 2 * REACH + 1)


def padded(mode: str, low: int, high: int) -> np.ndarray[Any, Any]:
    return np.pad(np.arange(low, high), (REACH + low, REACH + 1 - high), mode=mode)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("kind", MODES)
@pytest.mark.parametrize("n", [1, 2, 3, 7, 16])
def test_whole_input(kind: str, n: int) -> None:
    f = getattr(Input("img", float32, 1, dims=("x",)), kind)()
    assert (reads(f, {"img": (n,)}) == padded(MODES[kind], 0, n)).all()


@pytest.mark.parametrize("kind", MODES)
@pytest.mark.parametrize(("low", "high"), [(2, 3), (3, 8), (0, 5), (4, 20)])
def test_constant_ranges(kind: str, low: int, high: int) -> None:
    f = getattr(Input("img", float32, 1), kind)(x=(low, high))
    assert (reads(f, {"img": (20,)}) == padded(MODES[kind], low, high)).all()


@pytest.mark.parametrize("kind", MODES)
def test_negative_ranges_of_a_func(kind: str) -> None:
    g = Func("g")
    g[x] = x
    assert (reads(getattr(g, kind)(x=(-9, -4)), {}) == padded(MODES[kind], -9, -4)).all()


@pytest.mark.parametrize("kind", MODES)
@pytest.mark.parametrize("dtype", [int8, uint8, uint16, int64], ids=str)
def test_ranges_from_typed_parameters(kind: str, dtype: DType) -> None:
    """Coordinates may be negative and large whatever the type of the parameter."""
    low, high = Param("low", dtype), Param("high", dtype)
    f = getattr(Input("img", float32, 1), kind)(x=(low, high))
    assert (reads(f, {"img": (20,)}, {"low": 3, "high": 11}) == padded(MODES[kind], 3, 11)).all()
    wide = Pipeline(getattr(Input("img", float32, 1), kind)(x=(low, high)).over(x=(-1000, 1000)))
    assert bind(wide, {"img": (20,)}, {"low": 3, "high": 11}).specialised == {"low": 3, "high": 11}


@pytest.mark.parametrize("kind", MODES)
def test_ranges_from_shapes(kind: str) -> None:
    img = Input("img", float32, 1)
    f = getattr(img, kind)(x=(1, img.shape[0] - 2))
    assert (reads(f, {"img": (13,)}) == padded(MODES[kind], 1, 11)).all()


def test_constant_reads_inside_and_selects() -> None:
    img = Input("img", float32, 1)
    f = img.constant(0.5, x=(2, 7))
    assert (reads(f, {"img": (20,)}) == np.clip(np.arange(-REACH, REACH + 1), 2, 6)).all()
    (value,) = f.definitions[0].values
    assert isinstance(value, Select) and repr(value.cond) == "(x >= 2) & (x < 7)" and repr(value.f) == "0.5"
    assert isinstance(value.t, Load)


def test_dimensions_that_are_not_named_are_read_as_they_are() -> None:
    img = Input("img", float32, 3)
    f = img.clamped(y=(0, 5))
    assert f.dims == ("c", "y", "x")
    assert repr(f) == "img_clamped[c, y, x] = img[c, min(max(y, 0), 4), x]"
    assert img.wrapped().boundary == "wrapped" and set(img.wrapped().boundary_ranges) == {"c", "y", "x"}


def test_names_of_dimensions() -> None:
    assert [Input("a", float32, n).dims for n in range(7)] == [
        (), ("x",), ("y", "x"), ("c", "y", "x"), ("d", "c", "y", "x"), ("n", "d", "c", "y", "x"),
        ("d0", "n", "d", "c", "y", "x"),
    ]  # fmt: skip


def test_tuple_valued_source() -> None:
    g = Func("g")
    g[x] = (x, 0.5)
    f = g.constant(7, x=(0, 9))
    assert f.dtypes == g.dtypes
    assert [repr(v) for v in f.definitions[0].values] == [
        "select((x >= 0) & (x < 9), g[min(max(x, 0), 8)][0], 7)",
        "select((x >= 0) & (x < 9), g[min(max(x, 0), 8)][1], 7.0)",
    ]


def test_input_without_dimensions() -> None:
    scalar = Input("s", float32, 0)
    assert repr(scalar.clamped()) == "s_clamped[()] = s[]"
    assert bind(Pipeline(scalar.constant(3)), {"s": ()}).funcs["s_constant"].region == ()


@pytest.mark.parametrize("kind", [*MODES, "constant"])
def test_range_that_shapes_make_empty(kind: str) -> None:
    img = Input("img", float32, 1)
    ranges = {"x": (4, img.shape[0] - 4)}
    f = img.constant(0, **ranges) if kind == "constant" else getattr(img, kind)(**ranges)
    pipeline = Pipeline(f.over(x=(0, 9)))
    assert bind(pipeline, {"img": (9,)}).inputs["img"].shape == (9,)
    message = rf"boundary condition 'img_{kind}' has the empty range \[4, 4\) in x for shapes {{'img': \(8,\)}}"
    with pytest.raises(InputError, match=message):
        bind(pipeline, {"img": (8,)})
