"""Printed indices and values evaluate as the language defines, for all types and at the ends of their ranges."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.analysis.indices import index as ix
from autosched.codegen.expressions import index_text, is_wide, literal, value_text
from autosched.codegen.statements import simple_statement, strip_parentheses
from autosched.lang.dtypes import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from autosched.lower.ir import (
    Buffer,
    BufferRead,
    CompareIndex,
    ConstValue,
    IndexValue,
    Let,
    LetIndex,
    Memory,
    Op,
    Store,
    VarRef,
)
from tests.codegen.harness import arguments, call, call_index, compile_c, index_function, value_function
from tests.comparable import comparable

INTEGERS = (int8, uint8, int16, uint16, int32, uint32, int64, uint64)
FLOATS = (float16, bfloat16, float32, float64)
Array = np.ndarray[Any, Any]

# ---- indices

RANGES = {"a": (-7, 9), "b": (0, 40), "c": (0, 70_000), "d": (-5, 5)}


def random_index(rng: np.random.Generator, depth: int) -> ix.Index:
    """Return an index built from every operation that lowering uses in indices."""
    if depth == 0 or rng.random() < 0.2:
        name = str(rng.choice(list(RANGES)))
        return ix.add(ix.scale(ix.var(name, *RANGES[name]), int(rng.integers(-3, 4))), int(rng.integers(-9, 10)))
    a, b = random_index(rng, depth - 1), random_index(rng, depth - 1)
    c = int(rng.choice([1, 2, 3, 8, 10, 64]))
    made: list[Callable[[], ix.Index]] = [
        lambda: ix.add(a, b), lambda: ix.sub(a, b), lambda: ix.scale(a, c * 1001), lambda: ix.floordiv(a, c),
        lambda: ix.mod(a, c), lambda: ix.minimum(a, b), lambda: ix.maximum(a, b), lambda: ix.multiply(a, b),
    ]  # fmt: skip
    return made[int(rng.integers(len(made)))]()


def test_indices_at_random_points(tmp_path: Path) -> None:
    """Also where they need 64 bits; an overflow on the way would stop the process."""
    rng = np.random.default_rng(5)
    names = list(RANGES)
    indices: list[ix.Index] = []
    while len(indices) < 300:
        e = random_index(rng, 4)
        lo, hi = ix.interval(e)
        if max(-lo, hi) < 1 << 60:
            indices.append(e)
    library = compile_c("".join(index_function(f"f{k}", names, e) for k, e in enumerate(indices)), tmp_path)
    wide = 0
    for k, e in enumerate(indices):
        wide += is_wide(e)
        corners = [{n: RANGES[n][end] for n, end in zip(names, ends, strict=True)} for ends in ((0,) * 4, (1,) * 4)]
        inside = [{n: int(rng.integers(lo, hi + 1)) for n, (lo, hi) in RANGES.items()} for _ in range(12)]
        for at in (*corners, *inside):
            assert call_index(library, f"f{k}", names, at) == ix.evaluate(e, at), (e, at)
    assert 20 < wide < 280


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (0, "0"),
        (-3, "-3"),
        (1 << 31, "2147483648LL"),
        (ix.add(ix.scale(ix.var("y", 0, 9), 100), ix.add(ix.var("x", 0, 99), -1)), "100*y + x - 1"),
        (ix.scale(ix.var("x", 0, 9), -1), "-x"),
        (ix.sub(5, ix.var("x", 0, 9)), "-x + 5"),
        (ix.floordiv(ix.var("x", -9, 9), 4), "((x) >> 2)"),
        (ix.mod(ix.var("x", -9, 9), 4), "((x) & 3)"),
        (ix.floordiv(ix.var("x", 0, 9), 3), "((x) / 3)"),
        (ix.mod(ix.var("x", 0, 9), 3), "((x) % 3)"),
        (ix.floordiv(ix.var("x", -9, 9), 3), "as_floordiv_i32(x, 3)"),
        (ix.minimum(ix.var("x", 0, 9), 5), "as_min_i32(x, 5)"),
        (ix.scale(ix.var("y", 0, 1 << 20), 1 << 20), "1048576*(long long)y"),
        (ix.maximum(ix.scale(ix.var("y", 0, 1 << 20), 1 << 20), 7), "as_max_i64(1048576*(long long)y, 7LL)"),
    ],
)
def test_index_texts(index: ix.Index, text: str) -> None:
    assert index_text(index) == text


# ---- integers

UNARY = ("neg", "not", "abs")
BINARY = ("add", "sub", "mul", "and", "or", "xor", "floordiv", "mod", "shl", "shr", "min", "max")


def wrapped(value: int, d: DType) -> int:
    return (value - d.min_value) % (1 << d.bits) + d.min_value


def meaning(op: str, d: DType, a: int, b: int = 0) -> int:
    """Return the exact result as the language defines it."""
    match op:
        case "floordiv":
            exact = a // b if b else 0
        case "mod":
            exact = a % b if b else 0
        case "shl":
            exact = a << (b % d.bits)
        case "shr":
            exact = a >> (b % d.bits)
        case "min":
            exact = min(a, b)
        case "max":
            exact = max(a, b)
        case _:
            exact = {
                "add": a + b, "sub": a - b, "mul": a * b, "and": a & b, "or": a | b, "xor": a ^ b, "neg": -a, "not": ~a,
                "abs": abs(a),
            }[op]  # fmt: skip
    return wrapped(exact, d)


def extremes(d: DType) -> list[int]:
    near = [d.min_value, d.min_value + 1, d.max_value, d.max_value - 1, d.max_value // 2]
    return [
        v for v in dict.fromkeys([*near, -13, -8, -2, -1, 0, 1, 2, 3, 7, 8, 15, 31]) if d.min_value <= v <= d.max_value
    ]


def test_integer_arithmetic_wraps_without_undefined_behaviour(tmp_path: Path) -> None:
    cases = {(op, d): Op(op, arguments([d, d]), d) for d in INTEGERS for op in BINARY}
    cases |= {(op, d): Op(op, arguments([d]), d) for d in INTEGERS for op in UNARY if op != "abs" or d.kind == "i"}
    body = "".join(value_function(f"{op}_{d.short}_", [d] * len(v.args), v) for (op, d), v in cases.items())
    library = compile_c(body, tmp_path)
    for (op, d), v in cases.items():
        points = list(itertools.product(extremes(d), repeat=len(v.args)))
        columns = [np.array(c, d.numpy) for c in zip(*points, strict=True)]
        found = call(library, f"{op}_{d.short}_", columns, d)
        expected = [meaning(op, d, *p) for p in points]
        wrong = [(p, f, e) for p, f, e in zip(points, found.tolist(), expected, strict=True) if f != e]
        assert not wrong, (op, d, wrong[:3])


def test_division_by_constants(tmp_path: Path) -> None:
    """Powers of two and others, of numbers of either sign."""
    divisors = {d: [c for c in (1, 2, 3, 7, 8, 64, -1, -3, -8) if c >= d.min_value] for d in INTEGERS}
    cases = {
        (op, d, c): Op(op, (*arguments([d]), ConstValue(c, d)), d)
        for d in INTEGERS for c in divisors[d] for op in ("floordiv", "mod")
    }  # fmt: skip
    names = {key: f"f{k}" for k, key in enumerate(cases)}
    library = compile_c("".join(value_function(names[key], [key[1]], v) for key, v in cases.items()), tmp_path)
    for (op, d, c), name in names.items():
        values = extremes(d)
        found = call(library, name, [np.array(values, d.numpy)], d)
        assert found.tolist() == [meaning(op, d, v, c) for v in values], (op, d, c)


# ---- conversions


def converted(a: Any, source: DType, target: DType) -> Any:
    """Return one value as the language converts it."""
    if target == bool_:
        return bool(a != 0)
    if target.is_float:
        with np.errstate(over="ignore"):
            return target.scalar(a)
    if source.is_float:
        if np.isnan(a):
            return 0
        number = int(float(a)) if np.isfinite(a) else (1 << 70) * (1 if a > 0 else -1)
        return max(target.min_value, min(target.max_value, number))
    return wrapped(int(a), target)


def samples(d: DType) -> list[Any]:
    if d == bool_:
        return [False, True]
    if d.is_int:
        return extremes(d)
    numbers = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.5,
        -1.99,
        3e4,
        -3e4,
        127.5,
        255.9,
        2049.0,
        65519.0,
        1e9,
        2.2e9,
        1e19,
        -1e19,
        1e-7,
    ]
    with np.errstate(over="ignore"):
        return [d.scalar(v) for v in (*numbers, np.inf, -np.inf, np.nan)]


def test_conversions_between_all_types(tmp_path: Path) -> None:
    types = (bool_, *INTEGERS, *FLOATS)
    pairs = [(s, t) for s in types for t in types]
    body = "".join(value_function(f"{s.name}_to_{t.name}", [s], Op("cast", arguments([s]), t)) for s, t in pairs)
    library = compile_c(body, tmp_path)
    for s, t in pairs:
        values = samples(s)
        found = call(library, f"{s.name}_to_{t.name}", [np.array(values, s.numpy)], t)
        expected = np.array([converted(v, s, t) for v in values], t.numpy)
        np.testing.assert_array_equal(comparable(found), comparable(expected), err_msg=f"{s} to {t}")
        if t.is_float:
            np.testing.assert_array_equal(
                np.signbit(found[~np.isnan(found)]), np.signbit(expected[~np.isnan(expected)])
            )


# ---- floating point


@pytest.mark.parametrize("d", FLOATS)
def test_float_arithmetic_rounds_once(d: DType, tmp_path: Path) -> None:
    """Half precision is computed in float32 and rounded after each operation."""
    ops = ("add", "sub", "mul", "truediv", "min", "max")
    body = "".join(value_function(op, [d, d], Op(op, arguments([d, d]), d)) for op in ops)
    body += "".join(value_function(op, [d], Op(op, arguments([d]), d)) for op in ("neg", "abs", "sqrt"))
    body += value_function("third", [d], Op("truediv", (*arguments([d]), ConstValue(3.0, d)), d))
    library = compile_c(body, tmp_path)
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.standard_normal(500) * 300, samples(d)]).astype(d.numpy)
    y = np.concatenate([rng.standard_normal(500) * 3, samples(d)[::-1]]).astype(d.numpy)
    with np.errstate(all="ignore"):
        expected = {
            "add": x + y, "sub": x - y, "mul": x * y, "truediv": x / y, "neg": -x, "abs": np.abs(x), "sqrt": np.sqrt(x),
            "third": x / d.scalar(3), "min": np.where((x <= y) | (x != x), x, y),
            "max": np.where((x >= y) | (x != x), x, y),
        }  # fmt: skip
    for op, wanted in expected.items():
        found = call(library, op, [x, y] if op in ops else [x], d)
        np.testing.assert_array_equal(comparable(found), comparable(wanted), err_msg=op)
        known = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(wanted[known]), err_msg=op)


def test_half_precision_travels_as_bits_and_is_held_as_a_float() -> None:
    h = Buffer("h", float16, 9, Memory.GLOBAL)
    load, x = Let("v", BufferRead(h, ix.var("x", 0, 8), 0)), VarRef("v", float16)
    assert simple_statement(load) == "const float v = as_f16_to_f32(LOAD(0, h, x));"
    total = Op("add", (x, ConstValue(1.0, float16)), float16)
    assert value_text(total) == "as_round_f16((v + 1.0f))"
    assert simple_statement(Store(h, 3, total, 1)) == "STORE(1, h, 3, as_f32_to_f16(as_round_f16((v + 1.0f))));"


def test_bfloat16_travels_as_bits_and_is_held_as_a_float() -> None:
    h = Buffer("h", bfloat16, 9, Memory.GLOBAL)
    load, x = Let("v", BufferRead(h, ix.var("x", 0, 8), 0)), VarRef("v", bfloat16)
    assert simple_statement(load) == "const float v = as_bf16_to_f32(LOAD(0, h, x));"
    total = Op("add", (x, ConstValue(0.1, bfloat16)), bfloat16)
    assert value_text(total) == "as_round_bf16((v + 0.100097656f))"
    assert simple_statement(Store(h, 3, total, 1)) == "STORE(1, h, 3, as_bf16_bits(as_round_bf16((v + 0.100097656f))));"
    assert value_text(Op("cast", (VarRef("a", int64),), bfloat16)) == "(as_round_bf16((float)a))"
    assert value_text(Op("max", (x, Op("neg", (x,), bfloat16)), bfloat16)) == "as_max_f32(v, (-v))"  # exact


# ---- texts


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Op("add", (VarRef("a", int32), VarRef("b", int32)), int32), "((int)((unsigned int)a + (unsigned int)b))"),
        (
            Op("mul", (VarRef("a", int64), VarRef("b", int64)), int64),
            "((long long)((unsigned long long)a * (unsigned long long)b))",
        ),
        (
            Op("mul", (VarRef("a", uint16), VarRef("b", uint16)), uint16),
            "((unsigned short)((unsigned int)a * (unsigned int)b))",
        ),
        (Op("add", (VarRef("a", uint16), VarRef("b", uint16)), uint16), "((unsigned short)(a + b))"),
        (Op("add", (VarRef("a", uint32), VarRef("b", uint32)), uint32), "(a + b)"),
        (Op("truediv", (VarRef("a", float32), ConstValue(4.0, float32)), float32), "(a * 0.25f)"),
        (
            Op("truediv", (VarRef("a", float32), ConstValue(3.0, float32)), float32),
            "as_div_const_f32(a, 3.0f, 0.33333334f)",
        ),
        (Op("truediv", (VarRef("a", float32), VarRef("b", float32)), float32), "(a / b)"),
        (Op("select", (VarRef("c", bool_), VarRef("a", int8), VarRef("b", int8)), int8), "(c ? a : b)"),
        (Op("and", (VarRef("a", bool_), VarRef("b", bool_)), bool_), "(a & b)"),
        (Op("xor", (VarRef("a", bool_), VarRef("b", bool_)), bool_), "(a != b)"),
        (Op("lt", (VarRef("a", float32), VarRef("b", float32)), bool_), "(a < b)"),
        (CompareIndex("le", ix.var("x", 0, 9), 4, bool_), "(x <= 4)"),
        (IndexValue(ix.var("x", 0, 9), float32), "(float)(x)"),
    ],
)
def test_value_texts(value: Any, text: str) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize(
    ("value", "d", "text"),
    [
        (True, bool_, "true"), (5, int8, "5"), (-5, int16, "(-5)"), (5, uint32, "5u"), (5, int64, "5LL"),
        (2**64 - 1, uint64, "18446744073709551615ULL"), (-(2**31), int32, "(-2147483647 - 1)"),
        (-(2**63), int64, "(-9223372036854775807LL - 1)"), (0.5, float32, "0.5f"), (-0.5, float64, "(-0.5)"),
    ],
)  # fmt: skip
def test_literals(value: Any, d: DType, text: str) -> None:
    assert literal(value, d) == text


def test_an_index_is_declared_as_wide_as_its_sum_needs() -> None:
    narrow, wide = ix.scale(ix.var("y", 0, 9), 7), ix.scale(ix.var("y", 0, 1 << 30), 7)
    assert simple_statement(LetIndex("at", narrow)) == "const int at = 7*y;"
    assert simple_statement(LetIndex("at", wide)) == "const long long at = 7*(long long)y;"


def test_a_variable_that_is_wide_already_is_not_converted() -> None:
    assert index_text(ix.add(ix.var("at", 0, 1 << 40), 3)) == "at + 3"


@pytest.mark.parametrize(
    ("text", "inside"),
    [("(a + b)", "a + b"), ("(a) + (b)", "(a) + (b)"), ("((a))", "(a)"), ("f(a)", "f(a)"), ("a", "a")],
)
def test_bare(text: str, inside: str) -> None:
    assert strip_parentheses(text) == inside
