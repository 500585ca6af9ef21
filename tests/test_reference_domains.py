"""Domains, ranges of indices, checks of arguments and their messages."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autosched as a
from autosched import (
    BoundsError,
    Expr,
    Func,
    Input,
    InputError,
    Param,
    Pipeline,
    RDom,
    Var,
    bool_,
    float16,
    float32,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
)
from autosched.lang.operators import with_default_type
from autosched.reference import interpret, interpret_funcs
from autosched.reference.intervals import Interval
from autosched.reference.numbering import Numbering, loop_key
from autosched.reference.program import Bindings
from autosched.reference.ranges import Ranges

y, x = Var("y"), Var("x")
src = Input("src", float32, 1)
byte = Input("byte", uint8, 1)
word = Input("word", int32, 1)
real = Input("real", float32, 1)


def domain_of(producer: Func, consumer: Func, box: tuple[int, int], inputs: dict[str, Any] | None = None) -> Any:
    buffer = interpret_funcs(Pipeline(consumer.over(x=box)), inputs or {})[producer]
    return [(o, o + n) for o, n in zip(buffer.origin, buffer.arrays[0].shape, strict=True)]


def producer(*dims: Var) -> Func:
    p = Func("p")
    p[dims] = sum(dims[1:], start=dims[0] * 3)
    return p


def range_of(e: Expr, **loops: range) -> tuple[float, float]:
    numbering = Numbering()
    n = numbering.number(e)
    with np.errstate(all="ignore"):
        found = Ranges(numbering, Bindings({}, {}), list(loops.items())).of(n)
    return found.low, found.high


def test_domain_is_the_hull_of_what_consumers_reach() -> None:
    p, f = producer(x), Func("f")
    f[x] = p[x - 3] + p[2 * x + 1] + p[x % 4] + p[-x // 3]
    assert domain_of(p, f, (2, 7)) == [(-2, 14)]


def test_domain_in_several_dimensions_and_through_funcs() -> None:
    p, middle, f = producer(y, x), Func("middle"), Func("f")
    middle[y, x] = p[x, y + 1]
    f[x] = middle[x - 1, 5] + middle[0, x + 2]
    assert domain_of(p, f, (0, 10)) == [(2, 12), (0, 10)]


def test_domain_follows_reduction_loops_and_mixed_indices() -> None:
    p, f = producer(x), Func("f")
    r = RDom("r", i=(-2, 3), j=4)
    f[x] = a.sum(p[x * 4 + r.j - r.i], over=r)
    assert domain_of(p, f, (1, 3)) == [(2, 14)]


def test_domain_grows_by_what_updates_touch() -> None:
    f, g = Func("f"), Func("g")
    r = RDom("r", t=(1, 9))
    f[y, x] = y + x
    f[r.t, x] = f[r.t - 1, x] + 1
    f[y, 3] = f[y, -2] * 2
    g[x] = f[4, x]
    assert domain_of(f, g, (5, 7)) == [(0, 9), (-2, 7)]


def test_domain_of_a_data_dependent_index() -> None:
    p, f = producer(x), Func("f")
    f[x] = p[byte[x]] + p[a.clamp(word[x], -5, 3)]
    inputs = {"byte": np.zeros(2, np.uint8), "word": np.zeros(2, np.int32)}
    assert domain_of(p, f, (0, 2), inputs) == [(-5, 256)]


def test_funcs_read_only_by_empty_loops_are_not_computed() -> None:
    p, f = producer(x), Func("f")
    r = RDom("r", i=(3, 3))
    f[x] = 0
    f[x] += p[x + r.i]
    computed = interpret_funcs(Pipeline(f.over(x=(0, 2))), {})
    assert set(computed) == {f}
    assert computed[f].arrays[0].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (byte[x], (0, 255)),
        (a.cast(int32, byte[x]) * 2 - 3, (-3, 507)),
        (byte[x] + byte[x], (0, 255)),
        (a.cast(int8, byte[x]), (-128, 127)),
        (a.cast(int32, byte[x]) // 16 - a.cast(int32, byte[x + 1]) // 64, (-3, 15)),
        (a.cast(int32, byte[x]) >> 4, (0, 15)),
        (word[x] & 7, (0, 7)),
        (a.cast(int32, byte[x]) | 256, (256, 511)),
        (word[x] % 10, (0, 9)),
        (a.cast(int32, byte[x]) % 1000, (0, 255)),
        (a.abs(a.clamp(word[x], -9, 4)), (0, 9)),
        (-a.clamp(word[x], -9, 4), (-4, 9)),
        (a.clamp(word[x], x, x + 5), (10, 24)),
        (a.min(a.max(word[x], 0), 7) + x, (10, 26)),
        (a.select(word[x] > 5, 5, a.select(word[x] < -2, -2, word[x])), (-2, 5)),
        (a.select((word[x] >= 0) & (word[x] < 12), word[x], 0), (0, 11)),
        (a.select((word[x] < 0) | (word[x] > 12), 0, word[x]), (0, 12)),
        (a.select(~(word[x] != 4), word[x], 9), (4, 9)),
        (a.select(a.cast(uint8, 10) > byte[x], byte[x], 20), (0, 20)),
        (a.cast(int32, a.clamp(real[x], 0.0, 1.0) * 10.0 + 0.5), (0, 10)),
        (a.cast(int32, a.clamp(real[x], 5.0, 7.9)), (0, 7)),  # a NaN passes clamp and becomes 0
        (a.cast(int32, a.floor(a.cast(float32, byte[x]) / 2)), (0, 127)),
        (a.cast(int32, a.sqrt(a.cast(float32, byte[x]))), (0, 15)),
        (a.cast(int32, a.round(a.select(real[x] > 1.0, 1.0, real[x]) * 0.0)), (-(2**31), 2**31 - 1)),
        (a.cast(int16, a.cast(float16, byte[x])), (0, 255)),
        (a.cast(int32, byte[x] > 3), (0, 1)),
        (a.cast(uint8, x), (10, 19)),
        (a.cast(uint32, x - 20), (2**32 - 10, 2**32 - 1)),
    ],
    ids=repr,
)
def test_ranges_of_indices(index: Expr, expected: tuple[int, int]) -> None:
    assert range_of(index, x=range(10, 20)) == expected


def test_ranges_without_data_are_exact() -> None:
    assert range_of((x - 5) * (x - 5), x=range(0, 12)) == (0, 36)
    assert range_of(a.select(x % 2 == 0, x, -x), x=range(0, 12)) == (-11, 10)
    assert range_of(y * 100 + x % 7, y=range(2, 4), x=range(0, 3)) == (200, 302)
    assert range_of(a.clamp(2**40 * (x + 0), -3, x), x=range(1, 5)) == (1, 4)


def test_ranges_over_very_many_points_use_intervals() -> None:
    n = 1 << 12
    e = y * n + x + 3
    assert range_of(e, y=range(n), x=range(n)) == (3, n * n + 2)


OPERATIONS = ["add", "sub", "mul", "min", "max", "floordiv", "mod", "and", "or", "xor", "shr", "select", "neg", "abs"]


@st.composite
def integer_expressions(draw: st.DrawFn, depth: int = 4) -> Expr:
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        leaf = draw(st.sampled_from(["byte", "word", "var", "number", "real"]))
        number = draw(st.integers(-20, 300))
        if leaf == "real":
            clamped = a.clamp(real[x], float(-abs(number)), draw(st.floats(0, 100, width=32)))
            return a.cast(int32, clamped * 0.5 - 0.25)
        return {"byte": a.cast(draw(st.sampled_from([int32, int16, uint8])), byte[x]), "word": word[x],
                "var": a.cast(int32, x), "number": with_default_type(x * 0 + number)}[leaf]  # fmt: skip
    p, q = draw(integer_expressions(depth - 1)), draw(integer_expressions(depth - 1))
    match draw(st.sampled_from(OPERATIONS)):
        case "select":
            low, high = sorted(draw(st.lists(st.integers(0, 100), min_size=2, max_size=2)))
            inside = (p >= low) & (p <= high)
            return a.select(inside if draw(st.booleans()) else ~inside, p, q)
        case "neg":
            return -p
        case "abs":
            return a.abs(p)
        case "shr":
            return p >> draw(st.integers(0, 6))
        case "min":
            return a.min(p, q)
        case "max":
            return a.max(p, q)
        case "add":
            return p + q
        case "sub":
            return p - q
        case "mul":
            return p * q
        case "floordiv":
            return p // q
        case "mod":
            return p % q
        case "and":
            return p & q
        case "or":
            return p | q
    return p ^ q


@settings(max_examples=120, deadline=None, derandomize=True)
@given(e=integer_expressions(), seed=st.integers(0, 1000))
def test_ranges_hold_every_value(e: Expr, seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = np.concatenate([rng.integers(-40, 40, 30), rng.integers(-(2**31), 2**31, 30)]).astype(np.int32)
    reals = np.concatenate([rng.normal(0, 50, 55), [math.nan, math.inf, -math.inf, 0.0, -0.0]]).astype(np.float32)
    inputs: dict[str, Any] = {"byte": rng.integers(0, 256, 60, dtype=np.uint8), "word": words, "real": reals}
    f = Func("f")
    f[x] = e
    pipeline = Pipeline(f.over(x=(0, 60)))
    got = interpret(pipeline, {i.name: inputs[i.name] for i in pipeline.inputs})["f"]
    low, high = range_of(with_default_type(e), x=range(60))
    assert low <= got.min() and got.max() <= high


def test_conditions_on_floats_keep_nan_possible() -> None:
    e = a.select(real[x] < 3.0, 0.0, a.select(real[x] > 7.0, 0.0, real[x]))  # a NaN fails both comparisons
    numbering = Numbering()
    n = numbering.number(e)
    assert Ranges(numbering, Bindings({}, {}), [("x", range(4))]).of(n) == Interval(0.0, 7.0, True)


def test_keys_of_loop_variables_are_name_or_order() -> None:
    r = RDom("r", i=4)
    assert loop_key(Var("x")) == loop_key(x)
    assert loop_key(r.i) != loop_key(RDom("r", i=4).i)


def test_reading_outside_an_input_names_stage_index_and_range() -> None:
    f = Func("f")
    f[x] = src[x] + src[x + 2]
    with pytest.raises(BoundsError, match=r"f reads input 'src' at x \+ 2 in dimension x: 2 to 6 is not within 0 to 4"):
        interpret(Pipeline(f.over(x=(0, 5))), {"src": np.zeros(5, np.float32)})


def test_reading_outside_in_an_update_names_the_update_and_its_line() -> None:
    f = Func("f")
    r = RDom("r", i=(-1, 2))
    f[x] = 0.0
    f[x] += src[x + r.i]
    with pytest.raises(BoundsError, match=r"f \(update 1\) reads input 'src'") as caught:
        interpret(Pipeline(f.over(x=(0, 5))), {"src": np.zeros(5, np.float32)})
    assert caught.value.location is not None
    assert caught.value.location.text == "f[x] += src[x + r.i]"


def test_select_does_not_guard_reads() -> None:
    f = Func("f")
    f[x] = a.select(x > 0, src[a.max(x, 1) - 1], src[x - 1])
    with pytest.raises(BoundsError, match="x - 1"):
        interpret(Pipeline(f.over(x=(0, 3))), {"src": np.zeros(3, np.float32)})


@pytest.mark.parametrize("target", ["input", "func", "write"])
def test_unbounded_indices_are_refused_with_the_way_out(target: str) -> None:
    p, f = producer(x), Func("f")
    r = RDom("r", i=2)
    f[x] = 0
    if target == "write":
        f[word[r.i]] = 1
    else:
        f[x] += a.cast(int32, src[word[x]]) if target == "input" else p[word[x]]
    pipeline = Pipeline(f.over(x=(0, 2)))
    arrays = {"word": np.zeros(2, np.int32), "src": np.zeros(4, np.float32)}
    with pytest.raises(BoundsError, match=r"(?s)cannot be bounded.*clamp"):
        interpret(pipeline, {i.name: arrays[i.name] for i in pipeline.inputs})


def test_endless_and_huge_domains_are_refused() -> None:
    f = Func("f")
    r = RDom("r", i=4)
    f[y, x] = 0
    f[y, r.i] = f[y, r.i - y]
    f[r.i, x] = f[r.i + x, x]
    with pytest.raises(BoundsError, match="grows without bound"):
        interpret(Pipeline(f.over(y=(0, 4), x=(0, 4))), {})
    p, g = producer(y, x), Func("g")
    g[x] = p[word[x] % 1_000_000, word[x] % 999_999]
    with pytest.raises(BoundsError, match="1000000 x 999999 points"):
        interpret(Pipeline(g.over(x=(0, 1))), {"word": np.zeros(1, np.int32)})


def test_funcs_that_memory_cannot_hold_are_refused_before_they_are_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.reference.interpreter.memory_bytes", lambda: 1 << 20)
    f = Func("f")
    f[x] = a.cast("float64", x % 5)
    reason = "f needs 1048584 bytes over 131073 points, more than the 1048576 of this machine; use smaller"
    with pytest.raises(InputError, match=reason):
        a.interpret(Pipeline(f.over(x=(0, (1 << 17) + 1))), {})
    assert a.interpret(Pipeline(f.over(x=(0, 1 << 17))), {})["f"].size == 1 << 17


def test_boxes_of_negative_extent_are_refused() -> None:
    f = Func("f")
    f[x] = src[x]
    with pytest.raises(BoundsError, match="output 'f' has a negative extent: x runs from 3 to 1"):
        interpret(Pipeline(f.over(x=(3, src.shape[0] - 3))), {"src": np.zeros(4, np.float32)})


def test_output_without_a_box_takes_its_inputs_shape() -> None:
    image = Input("image", float32, 2)
    e = image.clamped()
    f = Func("f")
    f[y, x] = image[y, x] - e[y, x + 1]
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    got = interpret(Pipeline(f), {"image": array})["f"]
    np.testing.assert_array_equal(got, array - np.pad(array, ((0, 0), (0, 1)), mode="edge")[:, 1:])


def gain_pipeline() -> Pipeline:
    gain, count, flag = Param("gain", float32), Param("count", uint16, 3), Param("flag", bool_, True)
    f = Func("f")
    f[x] = a.select(flag, src[x] * gain + count, 0.0)
    return Pipeline(f.over(x=(0, 2)))


@pytest.mark.parametrize(
    ("inputs", "params", "message"),
    [
        ({}, {"gain": 1.0}, "input src is missing"),
        ({"src": None, "more": None}, {"gain": 1.0}, "there is no input more; the pipeline has: src"),
        ({"src": [1.0, 2.0]}, {"gain": 1.0}, "input 'src' is of type list; pass a NumPy array"),
        ({"src": np.zeros(2)}, {"gain": 1.0}, r"element type float64, not float32; convert it with \.astype"),
        ({"src": np.zeros(2, ">f4")}, {"gain": 1.0}, "element type >f4"),
        ({"src": np.zeros((2, 2), np.float32)}, {"gain": 1.0}, "2 dimensions, not 1"),
        ({"src": np.zeros(2, np.float32)}, {}, "parameter gain is missing"),
        ({"src": np.zeros(2, np.float32)}, {"gain": 1.0, "g": 2}, "no parameter g"),
        ({"src": np.zeros(2, np.float32)}, {"gain": "1"}, "parameter 'gain' of type float32 cannot be '1'"),
        ({"src": np.zeros(2, np.float32)}, {"gain": 1.0, "count": -1}, "'count' of type uint16 cannot be -1"),
        ({"src": np.zeros(2, np.float32)}, {"gain": 1.0, "count": 1.5}, "cannot be 1.5"),
        ({"src": np.zeros(2, np.float32)}, {"gain": 1.0, "flag": 1}, "'flag' of type bool cannot be 1"),
    ],
)
def test_wrong_arguments_are_named(inputs: dict[str, Any], params: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        interpret(gain_pipeline(), inputs, params)


def test_arguments_take_defaults_and_any_memory_layout() -> None:
    strided = np.arange(4, dtype=np.float32)[::2]
    assert interpret(gain_pipeline(), {"src": strided}, {"gain": 2})["f"].tolist() == [3.0, 7.0]
    off: dict[str, Any] = {"gain": np.float32(2), "count": np.int64(5), "flag": False}
    assert interpret(gain_pipeline(), {"src": strided}, off)["f"].tolist() == [0.0, 0.0]


def test_inputs_are_not_modified() -> None:
    f = Func("f")
    r = RDom("r", i=2)
    f[x] = src[x]
    f[r.i] = f[r.i] * 2.0
    array = np.ones(3, np.float32)
    got = interpret(Pipeline(f.over(x=(0, 3))), {"src": array})["f"]
    assert got.tolist() == [2.0, 2.0, 1.0] and array.tolist() == [1.0, 1.0, 1.0]


def test_wide_indices_are_read_exactly() -> None:
    f = Func("f")
    f[x] = src[a.cast(int64, x) + 1] + src[a.cast(uint32, x)]
    got = interpret(Pipeline(f.over(x=(0, 2))), {"src": np.array([1, 2, 4], np.float32)})["f"]
    assert got.tolist() == [3.0, 6.0]
