"""Lookups at 0 or 1, of which gcc 12 miscompiles the gathers."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, Var, cast, clamp, interpret, select
from autosched import max as larger
from autosched import min as smaller
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.codegen.c import HIDES_INDEX, print_c
from autosched.lang.dtypes import DType, bool_, float32, float64, int16, int32, int64, uint8
from autosched.lang.expr import Expr
from autosched.lower.ir import Buffer, BufferRead, Let, LetIndex, Memory, Op, Store, VarRef
from autosched.lower.passes.cpu.boolean_index import BooleanIndices
from autosched.lower.program import Program, lower
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target

CPU = get_target("cpu")
x = Var("x")
POINTS = 67
INDICES: dict[str, Callable[[Expr], Expr]] = {
    "condition": lambda s: cast(int32, s != 0),
    "its opposite": lambda s: 1 - cast(int32, s != 0),
    "select": lambda s: select(s > 0, 1, 0),
    "clamped condition": lambda s: clamp(cast(int32, s > 1), 0, 39),
    "conjunction": lambda s: cast(int32, s != 0) & cast(int32, s < 3),
    "one of two conditions": lambda s: cast(int32, s != 0) ^ cast(int32, s > 2),
    "either condition": lambda s: cast(int32, s > 2) | cast(int32, s == 1),
    "product": lambda s: cast(int32, s != 0) * cast(int32, s < 3),
    "remainder": lambda s: clamp(cast(int32, s != 0) % 5, 0, 39),
    "condition of conditions": lambda s: cast(int32, (s != 0) == (s > 1)),
    "minimum": lambda s: smaller(clamp(cast(int32, s), 0, 9), 1),
    "clamp": lambda s: clamp(cast(int32, s), 0, 1),
    "condition as a float": lambda s: clamp(cast(int32, cast(float32, s != 0)), 0, 39),
    "coordinate": lambda s: select(x < 7, 1, 0),
    "least coordinate": lambda s: smaller(x, 1),
    "coordinate and data": lambda s: select(x < clamp(cast(int32, s), 0, 2), 1, 0),
    "condition as a byte": lambda s: cast(uint8, s != 0),
    "64 bits": lambda s: cast(int64, s != 0),
}


def lookup(kind: str, data: DType, table: DType) -> tuple[BoundPipeline, Pipeline, dict[str, np.ndarray]]:  # type: ignore[type-arg]
    source, entries, out = Input("source", data, 1), Input("entries", table, 1), Func("out")
    out[x] = entries[INDICES[kind](source[x])]
    pipeline = Pipeline(out.over(x=(0, POINTS)))
    rng = np.random.default_rng(3)
    inputs = {
        "source": rng.integers(0, 4, POINTS).astype(data.numpy),
        "entries": rng.permutation(40).astype(table.numpy),
    }
    inputs = {i.name: inputs[i.name] for i in pipeline.inputs}
    return bind(pipeline, {n: a.shape for n, a in inputs.items()}), pipeline, inputs


def result(program: Program, inputs: dict[str, np.ndarray], dtype: DType) -> np.ndarray:  # type: ignore[type-arg]
    out = np.full(POINTS, 77).astype(dtype.numpy)
    CpuExecutable(program).run(inputs, {"out": out}, {})
    return out


@pytest.mark.parametrize(("data", "table"), [(uint8, uint8), (uint8, float32), (int32, float64), (float32, int16)])
@pytest.mark.parametrize("kind", INDICES)
def test_lookups_are_right(kind: str, data: DType, table: DType) -> None:
    bound, pipeline, inputs = lookup(kind, data, table)
    program = lower(bound, schedule_roots(bound, CPU))
    text = print_c(program).text
    assert (
        text.count("#define AS_BOOLEAN_INDEX") == 1 and f"{HIDES_INDEX}(" in text.split("#define AS_BOOLEAN_INDEX")[1]
    )
    np.testing.assert_array_equal(result(program, inputs, table), interpret(pipeline, inputs)["out"])
    assert HIDES_INDEX not in print_c(program, guarded=False).text


@pytest.mark.parametrize("index", [lambda s: cast(int32, s), lambda s: clamp(cast(int32, s), 0, 2), lambda s: x // 2])
def test_other_lookups_have_the_text_that_they_had(index: Callable[[Expr], Expr]) -> None:
    source, entries, out = Input("source", uint8, 1), Input("entries", float32, 1), Func("out")
    out[x] = entries[index(source[x])]
    pipeline = Pipeline(out.over(x=(0, POINTS)))
    shapes = {"source": (POINTS,), "entries": (256,)}
    bound = bind(pipeline, {i.name: shapes[i.name] for i in pipeline.inputs})
    program = lower(bound, schedule_roots(bound, CPU))
    assert print_c(program).text == print_c(program, guarded=False).text


def test_random_lookups_through_several_funcs() -> None:
    """Compilers propagate ranges through names and local arrays."""
    rng = random.Random(0)
    for seed in range(24):
        source, entries = Input("source", rng.choice((uint8, int32)), 1), Input("entries", uint8, 1)
        flag, number, out = Func("flag"), Func("number"), Func("out")
        flag[x] = source[x] > rng.randint(0, 2)
        number[x] = rng.choice(
            (cast(int32, flag[x]), select(flag[x], 1, 0), larger(cast(int32, flag[x]), 0), cast(int32, flag[x]) * 3)
        )
        out[x] = entries[clamp(number[rng.choice((x, x // 2))], 0, rng.choice((1, 39)))]
        pipeline = Pipeline(out.over(x=(0, POINTS)))
        data = np.random.default_rng(seed)
        inputs = {
            "source": data.integers(0, 4, POINTS).astype(source.dtype.numpy),
            "entries": data.permutation(40).astype(np.uint8),
        }
        bound = bind(pipeline, {n: a.shape for n, a in inputs.items()})
        program = lower(bound, sample_schedule(bound, CPU, np.random.default_rng(seed), varied=True))
        np.testing.assert_array_equal(result(program, inputs, uint8), interpret(pipeline, inputs)["out"], str(seed))


def test_ranges_follow_values_through_arrays_of_the_kernel() -> None:
    tile, table = Buffer("tile", int32, 16, Memory.SHARED), Buffer("table", int32, 40, Memory.GLOBAL)
    lane = ix.var("lane", 0, 15)
    flag = Op("cast", (BufferRead(Buffer("flags", bool_, 16, Memory.GLOBAL), lane, 0),), int32)
    at = LetIndex("at", ix.data(VarRef("v", int32), 0, 39, "v"))
    body = (
        Store(tile, lane, flag, 1),
        Let("v", BufferRead(tile, lane, 2)),
        at,
        Store(table, lane, VarRef("w", int32), 3),
    )
    found = BooleanIndices(body).hidden(at)
    assert isinstance(found, LetIndex) and found != at
    wider = (Store(tile, 0, Op("add", (flag, flag), int32), 4), *body)
    assert BooleanIndices(wider).hidden(at) == at


def test_values_that_are_made_of_one_another_are_followed_once() -> None:
    """Sixty updates of two arrays by each other: following each back for itself would take years."""
    arrays = [Buffer(name, int32, 4, Memory.REGISTER) for name in "ab"]
    body: list[Let | Store] = []
    for k in range(60):
        values = (BufferRead(arrays[0], 0, 0), BufferRead(arrays[1], 0, 1))
        body += [Let(f"v{k}", Op("add", values, int32)), Store(arrays[k % 2], 0, VarRef(f"v{k}", int32), 2)]
    at = LetIndex("at", ix.data(VarRef("v59", int32), 0, 39, "v"))
    assert BooleanIndices(tuple(body)).hidden(at) == at
