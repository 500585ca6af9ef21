"""Packed operands of schedules for CPUs."""

from __future__ import annotations

import numpy as np
import pytest

import autosched
from autosched import Func, Input, Pipeline, RDom, Var, float32, interpret
from autosched.analysis.bind import bind
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Schedule
from autosched.search.settings import SearchSettings
from autosched.search.strategies.protocol import Beam
from tests.search.cpu_cases import CPU

ROWS, COLUMNS, TERMS = 96, 120, 40


def product(*, transposed: bool) -> Pipeline:
    """Return the product of a matrix with another one, or with its transpose."""
    i, j, a, b, s = Var("i"), Var("j"), Input("a", float32, 2), Input("b", float32, 2), Func("s")
    r = RDom("r", k=TERMS)
    s[i, j] = 0.0
    s[i, j] += a[i, r.k] * (b[j, r.k] if transposed else b[r.k, j])
    return Pipeline(s.over(i=(0, ROWS), j=(0, COLUMNS)), name="product")


def found(pipeline: Pipeline, transposed: bool, **settings: bool) -> Schedule:
    shapes = {"a": (ROWS, TERMS), "b": (COLUMNS, TERMS) if transposed else (TERMS, COLUMNS)}
    bound = bind(pipeline, shapes)
    chosen = Beam(SearchSettings(beam_size=4, passes=1, **settings))
    schedule = chosen.search(bound, CPU, seed=0).ranked[0].schedule
    assert not violations(bound, schedule, CPU)
    return schedule


def packed(schedule: Schedule) -> list[tuple[str, tuple[str, ...]]]:
    return [(m.func, m.storage_order) for k in schedule.kernels for m in k.fused if m.func.endswith(".staged")]


def test_an_operand_with_strided_lanes_is_packed() -> None:
    pipeline = product(transposed=True)
    schedule = found(pipeline, transposed=True)
    ((name, storage),) = packed(schedule)
    dims = bind(pipeline, {"a": (ROWS, TERMS), "b": (COLUMNS, TERMS)}).inputs["b"].shape
    assert name == "b.staged" and len(storage) == len(dims)
    assert not packed(found(pipeline, transposed=True, packing=False))


def test_contiguous_operands_are_not_packed() -> None:
    assert not packed(found(product(transposed=False), transposed=False))


@pytest.mark.parametrize("rows", [1, 31, 96])
def test_results_are_those_of_the_interpreter(rows: int) -> None:
    i, j, a, b, s = Var("i"), Var("j"), Input("a", float32, 2), Input("b", float32, 2), Func("s")
    r = RDom("r", k=TERMS)
    s[i, j] = 0.0
    s[i, j] += a[i, r.k] * b[j, r.k]
    pipeline = Pipeline(s.over(i=(0, rows), j=(0, 257)))
    rng = np.random.default_rng(rows)
    inputs = {"a": rng.random((rows, TERMS), np.float32), "b": rng.random((257, TERMS), np.float32)}
    scheduled = autosched.schedule(pipeline, inputs=inputs, target="cpu", reuse=False, samples=4)
    got = scheduled.compile("cpu")(inputs)
    np.testing.assert_allclose(got, interpret(pipeline, inputs)["s"], rtol=1e-5)


def test_operands_of_producers_in_threads_are_packed() -> None:
    """As in masked attention, where the product is an argument of another expression."""
    i, j, a, b, mask = Var("i"), Var("j"), Input("a", float32, 2), Input("b", float32, 2), Input("mask", float32, 2)
    s, masked, r = Func("s"), Func("masked"), RDom("r", k=TERMS)
    s[i, j] = 0.0
    s[i, j] += a[i, r.k] * b[j, r.k]
    masked[i, j] = s[i, j] * 0.125 + mask[i, j]
    pipeline = Pipeline(masked.over(i=(0, ROWS), j=(0, COLUMNS)))
    bound = bind(pipeline, {"a": (ROWS, TERMS), "b": (COLUMNS, TERMS), "mask": (ROWS, COLUMNS)})
    schedule = Beam(SearchSettings(beam_size=4, passes=1)).search(bound, CPU, seed=0).ranked[0].schedule
    assert [name for name, _ in packed(schedule)] == ["b.staged"]
