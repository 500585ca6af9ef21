"""Funcs, inputs and parameters as they are built."""

from __future__ import annotations

import pytest

import autosched as a
from autosched import Func, Input, Param, Pipeline, RDom, Var, bool_, float32, float64, int8, int32, uint8, undef
from autosched.errors import DSLError
from autosched.lang.expr import Const
from autosched.lang.func import Definition

x, y, c = Var("x"), Var("y"), Var("c")


def test_definition() -> None:
    f = Func("f")
    assert not f.is_defined and repr(f) == "Func('f', undefined)"
    f[y, x] = x + 0.5
    assert f.is_defined and f.dims == ("y", "x") and f.ndim == 2
    assert f.dtype == float32 and f.dtypes == (float32,) and not f.is_tuple
    (pure,) = f.definitions
    assert pure.pure_vars == f.vars == (y, x) and pure.rvars == ()
    assert pure.location is not None and pure.location.text == "f[y, x] = x + 0.5"
    assert f.location is not None and f.location.text == 'f = Func("f")'


def test_weak_values_get_their_default_type() -> None:
    for value, dtype in ((1, int32), (x, int32), (0.5, float32), (True, bool_), (a.cast(uint8, 1), uint8)):
        f = Func("f")
        f[x] = value
        assert f.dtype == dtype


def test_updates() -> None:
    f, r = Func("f"), RDom("r", k=(1, 9))
    f[y, x] = 0.0
    f[0, x] = x
    f[r.k, x] += f[r.k - 1, x] * 2
    f[y, x] = f[y, x] + 1
    assert [d.pure_vars for d in f.definitions] == [(y, x), (x,), (x,), (y, x)]
    assert [d.rvars for d in f.definitions] == [(), (), (r.k,), ()]
    assert repr(f) == (
        "f[y, x] = 0.0\nf[0, x] = float32(x)\nf[r.k, x] = f[r.k, x] + f[r.k - 1, x] * 2.0\nf[y, x] = f[y, x] + 1.0"
    )
    assert all(d.location is not None for d in f.definitions)


def test_constants_in_updates_must_fit() -> None:
    f = Func("f")
    f[x] = a.cast(uint8, 0)
    f[x] = 255
    with pytest.raises(DSLError, match="256 does not fit uint8"):
        f[x] = 256
    with pytest.raises(DSLError, match="-1 does not fit uint8"):
        f[x] = -1
    assert len(f.definitions) == 2, "a refused update leaves the Func as it was"


def test_tuples() -> None:
    f = Func("f")
    f[x] = (x, 0.5, a.cast(int8, x))
    assert f.is_tuple and f.dtypes == (int32, float32, int8) and f.dtype == int32
    p, q, s = f[x]
    assert (p.dtype, q.dtype, s.dtype) == f.dtypes
    f[x] = (p, q + 1, s)
    assert repr(f).splitlines()[1] == "f[x] = f[x][0], f[x][1] + 1.0, f[x][2]"


def test_undef() -> None:
    f = Func("f")
    f[x] = undef(float32, "uint8")
    assert f.dtypes == (float32, uint8) and f.definitions[0].values == ()
    assert repr(f) == "f[x] = undef(float32, uint8)"


def test_without_dimensions() -> None:
    f = Func("f")
    f[()] = 3
    assert f.dims == () and repr(f) == "f[()] = 3"
    assert repr(f[()] + 1) == "f[] + 1"


def test_update_over_loops_that_are_not_mentioned() -> None:
    f, r = Func("f"), RDom("r", p=2, q=3)
    f[x] = 0
    f.update(x, f[x] + r.q, over=[r.p])
    (_, update) = f.definitions
    assert update.rvars == (r.p, r.q)
    assert update.location is not None and update.location.text == "f.update(x, f[x] + r.q, over=[r.p])"


def test_inputs() -> None:
    img = Input("img", "uint8", 3, dims=("row", "column", "channel"))
    assert img.dtype == uint8 and img.dtypes == (uint8,) and img.dims == ("row", "column", "channel")
    assert repr(img) == "Input('img', uint8, 3)" and repr(img.shape[2]) == "img.shape[2]"
    assert [e.dtype for e in img.shape] == [int32] * 3 and all(e.weak for e in img.shape)
    assert img[y, x, c].dtype == uint8


def test_params() -> None:
    p = Param("p", "float64", 2)
    assert p.dtype == float64 and p.default == 2 and not p.weak
    assert Param("n", uint8, 255).default == 255 and Param("b", bool_, True).default is True
    assert Param("q", float32).default is None


def test_over() -> None:
    img, n = Input("img", float32, 2), Param("n", int32)
    f = Func("f")
    f[y, x] = img[y, x]
    output = f.over(x=(1, img.shape[1] - 1), y=(-n, n * 2 + 1))
    assert output.func is f and output.box is not None
    assert [(repr(lo), repr(hi)) for lo, hi in output.box] == [("-n", "n * 2 + 1"), ("1", "img.shape[1] - 1")]


def test_records_are_immutable() -> None:
    f = Func("f")
    f[x] = 0
    for record, attribute in ((x, "name"), (f[x], "source"), (f.definitions[0], "values"), (Const(1, int32), "value")):
        with pytest.raises(AttributeError, match=f"cannot assign to field '{attribute}'"):
            setattr(record, attribute, None)
    assert isinstance(f.definitions[0], Definition)


def test_names_in_any_script() -> None:
    f = Func("größe")
    f[Var("λ")] = 1
    assert Pipeline(f.over(**{"λ": (0, 3)})).output_names == ("größe",)
