"""Interpreter and C backend agree on small random pipelines, and values stay finite and in their ranges."""

from __future__ import annotations

import numpy as np
import pytest

import autosched as a
from autosched.apps.agreement import disagreement
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import is_float_dtype
from autosched.lower.program import lower
from autosched.random_pipelines import random_pipeline
from autosched.random_pipelines.expressions import expression
from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.portable_random import PortableRandom
from autosched.random_pipelines.settings import SMALL
from autosched.reference import interpret
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target

TOLERANCE = Tolerance(rtol=1e-2, atol=1e-3, bad_fraction=0.02)
"""For functions that libraries round differently, and comparisons that this flips."""


def check(seed: int) -> None:
    p = random_pipeline(seed, SMALL)
    bound, inputs = p.bind(), p.inputs(np.random.default_rng(seed))
    expected = interpret(p.pipeline, inputs, p.params)
    for name, array in expected.items():
        assert not is_float_dtype(array.dtype) or np.isfinite(array).all(), (seed, name)
    program = lower(bound, schedule_roots(bound, get_target("cpu")))
    outputs = {n: np.zeros(b.extents, b.buffer.dtype.numpy) for n, b in program.outputs.items()}
    CpuExecutable(program).run(inputs, outputs, {s.name: p.params[s.name] for s in bound.scalars})
    for name, array in outputs.items():
        assert disagreement(p.pipeline, TOLERANCE, array, expected[name]) is None, (seed, name)


@pytest.mark.parametrize("seed", range(1000, 1005))
def test_witnesses_agree(seed: int) -> None:
    check(seed)


@pytest.mark.fuzz
@pytest.mark.parametrize("first", range(2000, 2400, 20))
def test_witnesses_agree_on_many(first: int) -> None:
    for seed in range(first, first + 20):
        check(seed)


def test_outputs_of_many_are_finite_and_few_are_constant() -> None:
    constant = 0
    for seed in range(60):
        p = random_pipeline(seed, SMALL)
        for array in interpret(p.pipeline, p.inputs(np.random.default_rng(seed)), p.params).values():
            assert not is_float_dtype(array.dtype) or np.isfinite(array).all(), seed
            constant += array.size > 8 and bool((array == array.flat[0]).all())
    assert constant <= 12


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "bfloat16", "uint8", "int8", "int16", "uint32", "int32", "float64"]
)
def test_expressions_keep_the_range_they_claim(dtype: str) -> None:
    """Bounds are valid for every value, up to rounding."""
    for seed in range(12):
        g = Graph(PortableRandom(np.random.default_rng(seed)), SMALL)
        low, high = (-3.0, 5.0) if dtype.startswith(("float", "bfloat", "int")) else (0.0, 200.0)
        operands = [g.add_input(dtype, ("x",), (64,), low, high) for _ in range(2)]
        found = g.draw.integer(1, 8)
        value = expression(g.draw, [t.at() for t in operands], operations=found, functions=0.3)
        f = a.Func("f")
        f[a.Var("x")] = value.expr
        pipeline = a.Pipeline([f.over(x=(0, 64))])
        rng = np.random.default_rng(seed)
        arrays = {i.name: (rng.random(64) * (high - low) + low).astype(dtype) for i in pipeline.inputs}
        (result,) = interpret(pipeline, arrays).values()
        slack = 0.01 * (1 + value.bound)
        assert np.isfinite(result).all(), (seed, value.expr)
        assert value.low - slack <= result.min() and result.max() <= value.high + slack, (seed, value)
