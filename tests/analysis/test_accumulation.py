from __future__ import annotations

import pytest

from autosched import Func, Input, RDom, Var, cast, float16, float32, int32, select, uint8, uint16
from autosched import max as max_
from autosched import min as min_
from autosched.analysis.access.accumulation import accumulation

x = Var("x")
img = Input("img", float32, 2)
gray = Input("gray", uint8, 2)
r = RDom("r", y=4, x=5)


def table(dtype=float32):
    f = Func("f")
    f[x] = cast(dtype, 0)
    return f


def last(f):
    return accumulation(f, f.definitions[-1])


@pytest.mark.parametrize(
    ("dtype", "update", "operator", "value"),
    [
        (float32, lambda own: own + img[r.y, r.x], "add", "img[r.y, r.x]"),
        (float32, lambda own: img[r.y, r.x] * own, "mul", "img[r.y, r.x]"),
        (float32, lambda own: own + img[r.y, r.x] + 2.0, "add", "img[r.y, r.x] + 2.0"),
        (float32, lambda own: 2.0 + (own + img[r.y, r.x] * 3.0), "add", "img[r.y, r.x] * 3.0 + 2.0"),
        (float32, lambda own: max_(own, img[r.y, r.x]), "max", "img[r.y, r.x]"),
        (uint8, lambda own: min_(gray[r.y, r.x], own), "min", "gray[r.y, r.x]"),
        (uint8, lambda own: own ^ gray[r.y, r.x], "xor", "gray[r.y, r.x]"),
        (uint8, lambda own: cast(int32, own) + cast(int32, r.x), "add", "uint8(int32(r.x))"),
        (int32, lambda own: own + gray[r.y, r.x], "add", "int32(gray[r.y, r.x])"),
    ],
)
def test_accumulations(dtype, update, operator, value):
    f = table(dtype)
    f[r.x] = update(f[r.x])
    found = last(f)
    assert found is not None
    assert found.operators == (operator,)
    assert repr(found.values[0]) == value
    assert found.values[0].dtype == f.dtype


@pytest.mark.parametrize(
    ("dtype", "update"),
    [
        (float32, lambda own, other: other + img[r.y, r.x]),
        (float32, lambda own, other: own + own),
        (float32, lambda own, other: own * 2.0 + 1.0),
        (float32, lambda own, other: own + other),
        (float32, lambda own, other: img[r.y, r.x] - own),
        (float32, lambda own, other: select(img[r.y, r.x] > own, img[r.y, r.x], own)),
        (float16, lambda own, other: own + img[r.y, r.x]),  # rounds to half after every step
        (uint8, lambda own, other: max_(own, cast(int32, 300))),  # does not fit: the maximum wraps
        (uint16, lambda own, other: cast(uint8, own) + gray[r.y, r.x]),  # drops bits of the sum so far
        (float32, lambda own, other: img[r.y, r.x]),
    ],
)
def test_others(dtype, update):
    f = table(dtype)
    f[r.x] = update(f[r.x], f[r.x + 1])
    assert last(f) is None


def test_scatter_with_the_index_written_out_twice():
    f = table(int32)
    f[cast(int32, gray[r.y, r.x]) + 1] = f[1 + cast(int32, gray[r.y, r.x])] + 1
    assert last(f) is not None
    f[cast(int32, gray[r.y, r.x]) + 1] = f[1 + cast(int32, gray[r.x, r.y])] + 1
    assert last(f) is None


def test_index_read_from_itself():
    f = table(int32)
    f[f[r.x] % 4] += 1
    assert last(f) is None


def test_tuples_accumulate_component_by_component():
    f = Func("f")
    f[x] = (0.0, float("-inf"))
    low, high = f[r.x]
    f[r.x] = (low + img[r.y, r.x], max_(high, img[r.y, r.x]))
    found = last(f)
    assert found is not None and found.operators == ("add", "max")
    f[r.x] = (high + img[r.y, r.x], max_(low, img[r.y, r.x]))
    assert last(f) is None
