"""Random stencils whose statements are rewritten: all backends give the bits of the interpreter, and those of
the original unless sums of floating-point numbers are retimed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from autosched import Expr, Func, Input, Pipeline, Var, cast, interpret, select, sqrt
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import (
    ComponentFission,
    ComputationFolding,
    ExpressionFission,
    Retiming,
    StatementRewrite,
)
from autosched.analysis.rewrites.component_fission import split_components
from autosched.analysis.rewrites.statement import rewrite_statements, statement_error
from autosched.lang.boundary import KINDS
from autosched.lang.dtypes import DType, float32, float64, int32, uint8
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.target import get_target
from tests.analysis.statement_cases import bordered
from tests.lower.run_backends import random_inputs

BACKENDS = {"cpu": get_target("cpu"), "emulator": get_target("h200")}
DTYPES = (float64, float32, int32, uint8)
DIMS = ("z", "y", "x")
RETIMED_SHARE = 0.4
"""Probability that a sum is retimed where one can be."""
Random = np.random.Generator


def random_stencil(rng: Random) -> BoundPipeline:
    """Return a tuple of one or two sums of a value at random points, in one to three dimensions, read by another Func.

    The value is a random expression of two arrays and a table of one dimension, behind a boundary condition.
    """
    rank = int(rng.choice([1, 2, 2, 3, 3]))
    dtype: DType = DTYPES[int(rng.integers(len(DTYPES)))]
    boundary = KINDS[int(rng.integers(len(KINDS)))]
    dims = DIMS[3 - rank :]
    extents = tuple(int(rng.integers(3, 9)) for _ in dims)
    a, b, row = Input("a", dtype, rank), Input("b", dtype, rank), Input("row", dtype, 1)
    at, bt, near = bordered(a, boundary), bordered(b, boundary), row.clamped()
    form = int(rng.integers(5))

    def term(offset: tuple[int, ...]) -> Expr:
        point = tuple(Var(d) + o if o else Var(d) for d, o in zip(dims, offset, strict=True))
        u, v, w = at[point], bt[point], near[point[-1]]
        if form == 0:
            return u * v
        if form == 1:
            return u * w + v
        if form == 2:
            return select(u > v, u, v + w)
        if form == 3:
            return cast(dtype, sqrt(cast(float32, u) * cast(float32, u))) - v
        return (u + v) * (u - w)

    def total(terms: int) -> Expr:
        points = [tuple(int(n) for n in rng.integers(-2, 3, rank)) for _ in range(terms)]
        value = term(points[0])
        for k, p in enumerate(points[1:]):
            scale = cast(dtype, k % 3 + 1)
            value = value + term(p) * scale if rng.random() < 0.6 else value - term(p)
        return value

    f, out = Func("f"), Func("out")
    here = tuple(map(Var, dims))
    f[here] = (total(int(rng.integers(2, 6))), total(int(rng.integers(2, 4))))
    out[here] = f[here][0] + f[here][1]
    pipeline = Pipeline([out.over(**{d: (0, n) for d, n in zip(dims, extents, strict=True)})])
    shapes = {i.name: extents if i.ndim == rank and i.name != "row" else extents[-1:] for i in pipeline.inputs}
    return bind(pipeline, shapes)


def rewrites_of(bound: BoundPipeline, rng: Random) -> Iterator[BoundPipeline]:
    """Yield the pipeline with a random sequence of rewritten statements, and with split components after it."""
    rewritten = bound
    for _ in range(int(rng.integers(1, 4))):
        names = [name for name, f in rewritten.funcs.items() if f.boundary is None]
        name = names[int(rng.integers(len(names)))]
        component = int(rng.integers(len(rewritten.funcs[name].dtypes)))
        choices: list[StatementRewrite] = [
            ComputationFolding(name), ComputationFolding(name, 1), ExpressionFission(name, 2, component),
            ExpressionFission(name, 3, component),
            *(Retiming(name, dim, component) for dim in rewritten.funcs[name].dims),
        ]  # fmt: skip
        legal = [c for c in choices if not statement_error(rewritten, c)]
        if legal:
            retimed = [c for c in legal if isinstance(c, Retiming)]
            legal = retimed if retimed and rng.random() < RETIMED_SHARE else legal
            chosen = legal[int(rng.integers(len(legal)))]
            rewritten = rewrite_statements(rewritten, (*rewritten.statements, chosen))
    if rewritten is not bound:
        yield rewritten
    yield split_components(rewritten, [ComponentFission("f", ((1,), (0,)))])


def check(seeds: range) -> Counter[str]:
    """Check the rewrites of random stencils; return the number of each kind."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        rng = np.random.default_rng(seed)
        bound = random_stencil(rng)
        inputs = random_inputs(bound, seed)
        (expected,) = interpret(bound.pipeline, inputs).values()
        for k, rewritten in enumerate(rewrites_of(bound, rng)):
            where = f"seed {seed}, {rewritten.rewrites}"
            (wanted,) = interpret(rewritten.pipeline, inputs).values()
            if any(isinstance(r, Retiming) for r in rewritten.rewrites) and wanted.dtype.kind == "f":
                largest = np.abs(expected).max()
                eps = np.finfo(wanted.dtype).eps
                np.testing.assert_allclose(wanted, expected, rtol=0, atol=1e3 * eps * largest, err_msg=where)
            else:
                np.testing.assert_array_equal(wanted, expected, err_msg=where)
            backend = ("emulator", "cpu")[(seed + k) % 2]
            schedule = sample_schedule(rewritten, BACKENDS[backend], rng, varied=True)
            assert not violations(bound, schedule, BACKENDS[backend]), where
            assert from_json(to_json(bound, schedule), bound) == schedule, where
            result = ScheduledPipeline(bound, schedule, BACKENDS[backend]).compile(backend)(inputs)
            np.testing.assert_array_equal(result, wanted, err_msg=f"{where} by {backend}")
            counts.update(type(r).__name__ for r in rewritten.rewrites)
    return counts


def test_statements_agree() -> None:
    counts = check(range(16))
    assert min(counts[c.__name__] for c in (ComputationFolding, ExpressionFission, ComponentFission, Retiming)) >= 4


@pytest.mark.fuzz
@pytest.mark.parametrize("shard", range(10))
def test_statements_agree_on_many(shard: int) -> None:
    check(range(2000 + 40 * shard, 2040 + 40 * shard))
