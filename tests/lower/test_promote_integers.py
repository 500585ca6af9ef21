"""Integer promotion: the same values, without redundant conversions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autosched.analysis.indices import index as ix
from autosched.codegen.expressions import storage_type
from autosched.codegen.statements import simple_statement
from autosched.lang.dtypes import DType, bool_, float32, int8, int16, int32, uint8, uint16, uint32
from autosched.lower.ir import Buffer, BufferRead, ConstValue, Let, Memory, Op, Stmt, Store, Value, VarRef
from autosched.lower.passes.promote_integers import promote_statements
from autosched.runtime.compile.host_compiler import have_compiler
from tests.codegen.harness import call, compile_c

INPUTS = (uint8, int8, uint16, int16, int32)
TYPES = (*INPUTS, uint32, float32)
OPERATIONS = (
    "add", "sub", "mul", "min", "max", "and", "or", "xor", "neg", "not", "floordiv", "mod", "shl", "shr", "select",
)  # fmt: skip
EXPRESSIONS = 120
AT = ix.var("i", 0, 1 << 20)


def buffer(name: str, dtype: DType) -> Buffer:
    return Buffer(name, dtype, 1 << 20, Memory.GLOBAL)


def read(k: int) -> BufferRead:
    return BufferRead(buffer(f"x{k}", INPUTS[k]), AT, k)


def random_value(rng: np.random.Generator, dtype: DType, depth: int, names: list[VarRef]) -> Value:
    """Return an expression of a type; it may read inputs, names bound before, and constants."""
    if depth == 0:
        known = [r for r in names if r.dtype == dtype]
        if known and rng.random() < 0.4:
            return known[int(rng.integers(len(known)))]
        if dtype in INPUTS and rng.random() < 0.8:
            return read(INPUTS.index(dtype))
        ends = (dtype.min_value, dtype.max_value, 0, 1, 3) if dtype.is_int else (1, 3)
        return ConstValue(int(rng.choice(ends)), dtype)
    if rng.random() < 0.3:
        return Op("cast", (random_value(rng, TYPES[int(rng.integers(len(TYPES)))], depth - 1, names),), dtype)
    if dtype == float32:
        return Op("add", (random_value(rng, dtype, depth - 1, names), random_value(rng, dtype, 0, names)), dtype)
    name = str(rng.choice(OPERATIONS))
    a = random_value(rng, dtype, depth - 1, names)
    if name in ("neg", "not"):
        return Op(name, (a,), dtype)
    if name in ("shl", "shr", "floordiv", "mod") and rng.random() < 0.7:
        amounts = [0, 1, dtype.bits - 1] if name in ("shl", "shr") else [0, 1, 3, 32, dtype.max_value]
        return Op(name, (a, ConstValue(int(rng.choice(amounts)), dtype)), dtype)
    b = random_value(rng, dtype, depth - 1, names)
    if name == "select":
        operands = TYPES[int(rng.integers(len(TYPES)))]
        sides = tuple(random_value(rng, operands, depth - 1, names) for _ in range(2))
        return Op("select", (Op(str(rng.choice(["lt", "ge", "eq"])), sides, bool_), a, b), dtype)
    return Op(name, (a, b), dtype)


def random_body(rng: np.random.Generator) -> tuple[Stmt, ...]:
    """Return statements that bind two values and store a third."""
    names: list[VarRef] = []
    body: list[Stmt] = []
    for k in range(2):
        dtype = INPUTS[int(rng.integers(len(INPUTS)))]
        body.append(Let(f"t{k}", random_value(rng, dtype, 3, names)))
        names.append(VarRef(f"t{k}", dtype))
    out = INPUTS[int(rng.integers(len(INPUTS)))]
    return (*body, Store(buffer("out", out), AT, random_value(rng, out, 3, names), 9))


def function(name: str, body: tuple[Stmt, ...]) -> str:
    """Return a C function that runs statements for each element of the inputs."""
    store = body[-1]
    assert isinstance(store, Store)
    params = [f"GLOBAL_IN({storage_type(d)}, x{k}, 0)" for k, d in enumerate(INPUTS)]
    lines = "\n".join(f"        {simple_statement(s)}" for s in body)
    params.append(f"GLOBAL_OUT({storage_type(store.buffer.dtype)}, out, 0)")
    return (
        f"void {name}({', '.join(params)}, const int count) {{\n"
        f"    for (int i = 0; i < count; i++) {{\n{lines}\n    }}\n}}\n"
    )


@pytest.mark.skipif(not have_compiler("c"), reason="needs a C compiler")
def test_random_expressions_keep_their_values(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    bodies = [random_body(rng) for _ in range(EXPRESSIONS)]
    text = "".join(
        function(f"narrow{k}", b) + function(f"wide{k}", promote_statements(b)) for k, b in enumerate(bodies)
    )
    library = compile_c(text, tmp_path)
    inputs = []
    for d in INPUTS:
        ends = [d.min_value, d.min_value + 1, 0, 1, 2, d.max_value - 1, d.max_value]
        drawn = rng.integers(d.min_value, d.max_value, 400, endpoint=True)
        inputs.append(np.concatenate([rng.choice(ends, 200), drawn]).astype(d.numpy))
    changed = 0
    for k, body in enumerate(bodies):
        store = body[-1]
        assert isinstance(store, Store)
        expected = call(library, f"narrow{k}", inputs, store.buffer.dtype)
        found = call(library, f"wide{k}", inputs, store.buffer.dtype)
        assert np.array_equal(found, expected), function(f"narrow{k}", body) + function(
            f"wide{k}", promote_statements(body)
        )
        changed += promote_statements(body) != body
    assert changed > EXPRESSIONS / 2


def printed(value: Value, dtype: DType) -> str:
    (store,) = promote_statements((Store(buffer("out", dtype), AT, value, 9),))
    return str(simple_statement(store))


def average(a: Value, b: Value) -> Value:
    """Return (a + b + 1) >> 1 of two uint8, computed as uint16."""
    total = Op("add", (Op("cast", (a,), uint16), Op("cast", (b,), uint16)), uint16)
    rounded = Op("add", (total, ConstValue(1, uint16)), uint16)
    return Op("cast", (Op("shr", (rounded, ConstValue(1, uint16)), uint16),), uint8)


def test_redundant_conversions_are_dropped() -> None:
    """The average of two bytes is a byte again, and so is the average of two averages."""
    a = read(0)
    assert "short" not in printed(average(average(a, a), a), uint8)
    assert printed(average(average(a, a), a), uint8).count("(unsigned char)") == 1


def test_sums_that_may_wrap_are_converted() -> None:
    a, b = read(2), read(2)
    total = Op("add", (a, b), uint16)
    assert "(unsigned short)" in printed(Op("shr", (total, ConstValue(1, uint16)), uint16), uint16)
    half = Op("shr", (a, ConstValue(1, uint16)), uint16)
    below = printed(Op("shr", (Op("add", (half, half), uint16), ConstValue(1, uint16)), uint16), uint16)
    assert below.count("(unsigned short)") == 1  # of the store


def test_names_have_the_promoted_type() -> None:
    let, store = promote_statements(
        (
            Let("t", average(read(0), read(0))),
            Store(buffer("out", uint8), AT, Op("min", (VarRef("t", uint8), ConstValue(9, uint8)), uint8), 9),
        )
    )
    assert isinstance(let, Let) and let.value.dtype == int32
    assert isinstance(store, Store) and store.value.dtype == uint8


def test_a_name_has_the_range_of_its_last_binding() -> None:
    """Interior and border bind one name to values of different ranges."""
    clamped = Op("max", (Op("cast", (VarRef("t", int16),), uint8), ConstValue(0, uint8)), uint8)
    store = Store(buffer("out", uint8), AT, clamped, 9)
    body = (Let("t", Op("cast", (read(0),), int16)), store, Let("t", read(3)), store)
    texts = [str(simple_statement(s)) for s in promote_statements(body) if isinstance(s, Store)]
    assert [t.count("(unsigned char)") for t in texts] == [1, 2]
