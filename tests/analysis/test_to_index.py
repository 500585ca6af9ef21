"""Expressions in index position: exact where nothing can wrap, and sound ranges for data-dependent values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import autosched as a
from autosched import (
    Func,
    Input,
    Param,
    Pipeline,
    RDom,
    Var,
    float32,
    int8,
    int16,
    int32,
    int64,
    interpret,
    uint8,
    uint16,
    uint32,
    uint64,
)
from autosched.analysis.bind import bind
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.to_index import to_index
from autosched.analysis.specialise import Specialiser
from autosched.errors import BoundsError, DSLError
from autosched.lang.dtypes import DType, bool_
from autosched.lang.expr import Expr, walk

x, y = Var("x"), Var("y")
FULL = {d: (d.min_value, d.max_value) for d in (int8, int16, int32, int64, uint8, uint16, uint32, uint64)}


def data(dtype: DType) -> Expr:
    return Input(f"in_{dtype.short}", dtype, 1)[x]


def converted(e: Expr) -> ix.Index:
    """Return the index of an interned expression without shapes and parameters."""
    return to_index(Specialiser({}, {})(e))


def interval(e: Expr) -> tuple[int, int]:
    return ix.interval(converted(e))


def kinds(e: Expr) -> set[str]:
    return {t.kind for t in ix.atoms(converted(e)) if isinstance(t, ix.Atom)}


i8, u8, i16, u16, i32, u32, i64, f32 = (data(d) for d in (int8, uint8, int16, uint16, int32, uint32, int64, float32))


@pytest.mark.parametrize(
    ("e", "low", "high"),
    [
        (i8, -128, 127),
        (u8, 0, 255),
        (i16, -(1 << 15), (1 << 15) - 1),
        (u16, 0, (1 << 16) - 1),
        (i32, -(1 << 31), (1 << 31) - 1),
        (a.clamp(i32, 3, 9), 3, 9),
        (a.min(a.max(2, i32), 7), 2, 7),
        (a.max(i32, 5) % 1000, 0, 999),
        (i32 % 10, 0, 9),
        (i32 % -10, -9, 0),
        (i32 % 0, 0, 0),
        (i32 // 0, 0, 0),
        (i32 % u8, 0, 254),
        (i32 % a.clamp(i8, 3, 5), 0, 4),
        (u8 // 16, 0, 15),
        (i8 // -16, -8, 8),
        (u8 >> 4, 0, 15),
        (i8 >> 1, -64, 63),
        (i32 & 15, 0, 15),
        (12 & i32, 0, 12),
        (i32 & 12, 0, 12),
        (u8 & i32, 0, 255),
        (u8 & i16, 0, 255),
        (i32 & -4, -(1 << 31), (1 << 31) - 4),
        (u8 | 3, 3, 255),
        (u8 & 12 | 1, 1, 13),
        (a.cast(int32, u8) ^ (i32 % 16), 0, 255),
        (~(i32 % 7), -7, -1),
        (i32 % 16 - 8 | i32 % 4 - 4, -4, -1),
        (i32 % 1000 >> (u8 & 3), 0, 999),
        (i32 % 1000 >> a.cast(int32, 33), 0, 499),
        (i32 % 8 << u8, -(1 << 31), (1 << 31) - 1),
        (i32 % 100 // a.max(u8, 3), 0, 33),
        (i32 % 100 // u8, 0, 99),
        (i32 % 100 // a.cast(int32, i8), -99, 99),
        (i32 % 10 % u8, 0, 9),
        (a.cast(int32, a.cast(float32, i32 % 10) * 0.5 + a.cast(float32, u8)), 0, 259),
        (a.cast(int32, (a.cast(float32, u8) + a.cast(float32, u16)) / 2), 0, 32895),
        (a.cast(int32, -a.cast(float32, u8)), -255, 0),
        (a.cast(int32, abs(a.cast(float32, i8))), 0, 128),
        (a.cast(int32, a.select(f32 > 0.0, a.cast(float32, u8), 1000.0)), 0, 1000),
        (a.cast(int32, 1000.0 / a.cast(float32, a.max(u8, 4))), 0, 250),
        (a.cast(int32, 1000.0 / a.cast(float32, u8)), -(1 << 31), (1 << 31) - 1),
        (a.cast(int32, u8) + 3, 3, 258),
        (a.cast(int32, u8) * -2, -510, 0),
        (a.cast(int32, u8) << 3, 0, 255 * 8),
        (a.cast(int32, u8) - a.cast(int32, i8), -127, 383),
        (a.cast(int32, i8) * a.cast(int32, i8), -128 * 127, 128 * 128),
        (-a.cast(int32, u8), -255, 0),
        (abs(a.cast(int32, i8)), 0, 128),
        (~a.cast(int32, u8), -256, -1),
        (~u8, 0, 255),
        (a.cast(int32, a.cast(int8, a.clamp(i32, -3, 9))), -3, 9),
        (a.cast(int32, i32 > 3), 0, 1),
        (a.cast(uint8, i32), 0, 255),
        (a.hash_u32(i32) % 17, 0, 16),
        (a.select(f32 > 0.5, u8, 3), 0, 255),
        (a.select(f32 > 0.5, a.cast(int32, 7), -2), -2, 7),
    ],
    ids=repr,
)
def test_ranges(e: Expr, low: int, high: int) -> None:
    assert interval(e) == (low, high)


@pytest.mark.parametrize(
    ("e", "low", "high"),
    [
        (a.select(i32 < 10, i32, 9), -(1 << 31), 9),
        (a.select(i32 >= 0, a.min(i32, 20), 0), 0, 20),
        (a.select((i32 >= 0) & (i32 < 20), i32, 0), 0, 19),
        (a.select((i32 < 0) | (i32 > 20), 5, i32), 0, 20),
        (a.select(~((i32 < 0) | (i32 > 20)), i32, 5), 0, 20),
        (a.select(i32 == 7, i32, 3), 3, 7),
        (a.select(i32 != 7, 3, i32), 3, 7),
        (a.select((i32 > 2) & (i32 <= 6), a.clamp(i32, 0, 99) * 10, 45), 30, 60),
        (a.select((i32 > 2) & (i32 <= 6), i32 + 10, 12), -(1 << 31), (1 << 31) - 1),  # wraps elsewhere
        (a.select((a.cast(int32, u8) > 200), u8 - 200, 0), 0, 255),  # wraps below 200
        (a.select((i32 >= 3) & (i32 < 9), i32, 4), 3, 8),
        (a.select((i32 >= 0) & (i32 < a.cast(int32, u8)), i32, 0), 0, 254),
        (a.select(x < 3, a.clamp(x, 0, 9), 5), 0, 5),
        (a.select(i32 > 2000000000, a.cast(uint8, i32), 0), 0, 255),  # the cast is another number
        (a.select(f32 >= 0.0, a.cast(int32, f32), 0), -(1 << 31), (1 << 31) - 1),
        (a.select(a.cast(bool_, u8), u8, 1), 0, 255),
    ],
    ids=repr,
)
def test_ranges_behind_comparisons(e: Expr, low: int, high: int) -> None:
    assert interval(e) == (low, high)


def test_left_shifts_by_data_have_a_range_where_coordinates_have() -> None:
    for e, wanted in ((i32 % 8 << (u8 & 3), (0, 56)), (1 << (u8 & 3), (1, 8)), (i32 % 8 << u8, FULL[int32])):
        assert ix.interval(to_index(e)) == FULL[int32]
        assert ix.interval(to_index(e, near={})) == wanted


def test_coordinates_with_a_range() -> None:
    near = {"x": (0, 9)}
    assert ix.interval(to_index(x ^ 1, near=near)) == (0, 9)
    assert ix.key(to_index(a.cast(uint8, x) + 3, near=near)) == "(x+3)"
    assert ix.interval(to_index(a.cast(uint8, x - 1) + 3, near=near)) == FULL[uint8]
    assert ix.interval(to_index(a.cast(int32, a.cast(float32, x) * 0.5), near=near)) == (0, 4)


def test_equal_loads_are_the_same_data() -> None:
    lut, img = Input("lut", int32, 1), Input("img", uint8, 1)
    assert converted(lut[img[x]] - lut[img[x]]) == converted(a.cast(int32, 0)) or interval(i8 - i8) != (0, 0)
    e = a.cast(int32, img[x]) - a.cast(int32, img[x])
    assert converted(e) == 0
    assert interval(a.cast(int32, img[x]) - a.cast(int32, img[x + 1])) == (-255, 255)


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (2 * x + 1, "(2*x+1)"),
        (x >> 1, "((x)//2)"),
        (x & 7, "((x)%8)"),
        (x << 3, "(8*x)"),
        (~x, "(-1*x+-1)"),
        (x // -3, "((-1*x)//3)"),
        (x % -3, "(-1*(-1*x)%3)"),
        (a.cast(int32, x) + a.cast(int64, y) - 1, "(x+y+-1)"),
        (a.cast(int32, x) * 100, "(100*x)"),
        (a.cast(int32, x) >> 2, "((x)//4)"),
        (a.cast(int32, x) & 3, "((x)%4)"),
        (a.cast(int32, x) // y, None),
        (a.cast(uint32, x), None),  # negative coordinates wrap
        (a.cast(int16, x), None),
        (a.cast(int32, x) * y, None),  # 65536 * 65536 wraps
        (a.cast(int64, x) * y, "((x)*(y))"),
        (a.cast(int32, x) + i32, None),
        (a.cast(int32, x) + a.cast(int32, u8), "exact"),
        (a.cast(int32, x) | 1, None),
    ],
    ids=repr,
)
def test_coordinates(e: Expr, text: str | None) -> None:
    found = converted(e)
    assert (
        kinds(e) == {"data"} if text is None else text in (ix.key(found), "exact") and "data<" not in ix.key(found)[:5]
    )


def test_reduction_loops_that_really_wrap_are_data() -> None:
    r = RDom("r", k=(0, 70000))
    k = a.cast(int32, r.k)
    assert to_index(k * 30000) == ix.scale(to_index(r.k), 30000)
    assert ix.interval(to_index(k * 31000)) == FULL[int32]
    assert ix.interval(to_index(k * 31000 % 7)) == (0, 6)
    assert ix.interval(to_index(a.cast(uint16, r.k))) == FULL[uint16]
    assert ix.interval(to_index(r.k * 31000)) == (0, 69999 * 31000), "weak integers are exact"
    assert ix.interval(to_index(a.cast(uint32, r.k) - 1)) == FULL[uint32]


def test_coordinates_so_large_that_typed_arithmetic_would_wrap_are_refused() -> None:
    img, f = Input("img", float32, 1), Func("f")
    f[x] = img[a.cast(int32, x) * 1000 % 16]
    assert bind(Pipeline(f.over(x=(0, 2_000_000))), {"img": (16,)})
    with pytest.raises(BoundsError) as caught:
        bind(Pipeline(f.over(x=(0, 3_000_000))), {"img": (16,)})
    error = caught.value
    assert error.message == ("stage 'f': int32(x) * 1000 in an index reaches [0, 2999999000], more than int32 holds")
    assert error.hint == "compute it in int64, or in uint32 where it is meant to wrap"
    assert error.location is not None and error.location.text == "f[x] = img[a.cast(int32, x) * 1000 % 16]"


# Random typed integer expressions against the interpreter, which has no symbolic indices.

INPUTS = {d: Input(f"in_{d.short}", d, 1) for d in (int8, uint8, int16, int32, uint32, int64)}
WIDTH = 24
Draw = Callable[[st.SearchStrategy[Any]], Any]


def expression(draw: Draw, depth: int) -> Expr:
    """Return an integer expression over x and data, of any type."""
    kind = draw(st.integers(0, 13)) if depth else draw(st.integers(0, 2))
    if kind <= 1:
        return x + draw(st.integers(-3, 3))
    if kind == 2:
        source = INPUTS[draw(st.sampled_from(sorted(INPUTS, key=str)))]
        return source[a.clamp(x + draw(st.integers(-2, 2)), 0, WIDTH - 1)]
    e, n = expression(draw, depth - 1), draw(st.integers(-9, 9))
    match kind:
        case 3 | 4:
            other = expression(draw, depth - 1)
            return draw(st.sampled_from([lambda p, q: p + q, lambda p, q: p - q, lambda p, q: p * q, a.min, a.max]))(
                e, other
            )
        case 5:
            return a.cast(draw(st.sampled_from(sorted(INPUTS, key=str))), e)
        case 6:
            return draw(st.sampled_from([lambda p: -p, lambda p: ~p, abs]))(e)
        case 7:
            return e // a.cast(int64, n) if e.dtype.bits == 64 or e.dtype.kind == "u" else e // (n or 1)
        case 8:
            return e % abs(n or 5)
        case 9:
            return draw(st.sampled_from([lambda p: p >> 2, lambda p: p & 13, lambda p: p & 7, lambda p: p << 1]))(e)
        case 10:
            return a.clamp(e, abs(n), abs(n) + 4)
        case 12:
            other = expression(draw, depth - 1)
            bits = [lambda p, q: p & q, lambda p, q: p | q, lambda p, q: p ^ q]
            return draw(st.sampled_from([*bits, lambda p, q: p >> q, lambda p, q: p << q]))(e, other)
        case 13:
            return a.cast(int32, a.cast(float32, e) / (abs(n) + 1) + a.cast(float32, expression(draw, depth - 1)))
    bound, other = abs(n), expression(draw, depth - 1)
    condition = draw(st.sampled_from([e < bound, e >= bound, (e > bound) & (e <= bound + 9), ~(e == bound), other > e]))
    return a.select(condition, e, other)


@st.composite
def expressions(draw: Draw) -> Expr:
    while True:
        try:
            return expression(draw, 3)
        except DSLError:  # types that do not go together
            continue


@settings(max_examples=400, deadline=None)
@given(expressions(), st.integers(0, 100))
def test_random_expressions_have_sound_ranges_and_exact_indices(e: Expr, seed: int) -> None:
    f = Func("f")
    f[x] = e
    pipeline = Pipeline(f.over(x=(-7, WIDTH)))
    rng = np.random.default_rng(seed)
    arrays = {
        i.name: rng.choice(
            np.array([i.dtype.min_value, i.dtype.max_value, 0, 1, 3, 100], i.dtype.numpy), WIDTH
        ) for i in pipeline.inputs
    }  # fmt: skip
    shapes = {i.name: (WIDTH,) for i in pipeline.inputs}
    try:
        expected = next(iter(interpret(pipeline, arrays, {}).values())).astype(object)
    except BoundsError:  # an exact integer that its width does not hold
        with pytest.raises(BoundsError):
            bind(pipeline, shapes)
        return
    stage = bind(pipeline, shapes).stage("f", 0)
    index, env = stage.index_of(stage.values[0]), {"x": (-7, WIDTH - 1)}
    for part in walk(stage.values[0]):  # conversion assumes exact arithmetic: `check_index_overflow` refuses the rest
        if not part.weak and part.dtype.is_int and id(part) in stage.memo:
            reached = ix.bounds(stage.memo[id(part)], env)
            assume(part.dtype.min_value <= reached[0] and reached[1] <= part.dtype.max_value)
    lo, hi = ix.bounds(index, env)
    assert lo <= min(expected) and max(expected) <= hi
    if not any(isinstance(t, ix.Atom) and t.kind in ("data", "select") for t in ix.atoms(index)):
        assert (np.broadcast_to(ix.evaluate(index, {"x": np.arange(-7, WIDTH)}), expected.shape) == expected).all()


def test_a_shift_takes_a_parameter_modulo_the_width() -> None:
    n, f, values = Param("n", int32), Func("f"), np.arange(0, 1 << 20, 4099, dtype=np.int32)
    table, at = Input("table", int32, 1), Input("at", int32, 1)
    f[x] = table[(at[x] & 0xFFFFF) >> n]
    pipeline = Pipeline(f.over(x=(0, len(values))))
    stage = bind(pipeline, {"table": (1 << 12,), "at": values.shape}, {"n": 40}).stage("f", 0)
    load = next(load for load, source in stage.loads if source == "table")
    assert ix.interval(stage.index_of(load.indices[0])) == (0, (1 << 12) - 1)
    found = interpret(pipeline, {"table": np.arange(1 << 12, dtype=np.int32), "at": values}, {"n": 40})["f"]
    assert (found == values >> 8).all()


@pytest.mark.parametrize(("dtype", "reached"), [(int32, (7, 11)), (int64, (7, 11)), (uint8, (7, 11))], ids=str)
def test_parameters_are_constants_of_their_type(dtype: DType, reached: tuple[int, int]) -> None:
    n, f, img = Param("n", dtype), Func("f"), Input("img", float32, 1)
    f[x] = img[x + n]
    stage = bind(Pipeline(f.over(x=(0, 5))), {"img": (256,)}, {"n": 7}).stage("f", 0)
    ((load, _),) = stage.loads
    assert ix.bounds(stage.index_of(load.indices[0]), {"x": (0, 4)}) == reached
