"""Arrays of indices are exact where steps on the way exceed 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import autosched as a
from autosched import Func, Input, Pipeline, Var, float32, int64
from autosched.analysis.bind import bind
from autosched.analysis.indices import index as ix
from autosched.lang.expr import Expr
from autosched.search.strategies.protocol import STRATEGIES
from autosched.target import get_target

x, y = Var("x"), Var("y")
d = Input("d", int64, 1)
FEW = np.array([-3, 0, 5])


@pytest.mark.parametrize("huge", [1 << 63, -(1 << 63) - 1, 1 << 70, -(1 << 70), (1 << 63) - 1])
def test_integers_beyond_64_bits(huge: int) -> None:
    values = FEW.tolist()
    for found, wanted in (
        (ix.minimum(FEW, huge), [min(v, huge) for v in values]),
        (ix.maximum(huge, FEW), [max(v, huge) for v in values]),
        (ix.minimum(ix.maximum(ix.add(FEW, huge), -9), 9), [min(max(v + huge, -9), 9) for v in values]),
        (ix.minimum(ix.maximum(ix.scale(FEW, huge), -9), 9), [min(max(v * huge, -9), 9) for v in values]),
        (ix.sub(ix.add(FEW, huge), huge), values),
        (ix.mod(ix.add(FEW, huge), 7), [(v + huge) % 7 for v in values]),
    ):
        assert found.tolist() == wanted


def test_results_that_fit_are_int64() -> None:
    large = np.array([1 << 40, 3])
    assert ix.add(FEW, 1).dtype == ix.multiply(FEW, FEW).dtype == ix.minimum(FEW, 1 << 80).dtype == np.int64
    assert ix.multiply(large, large).tolist() == [1 << 80, 9]
    assert ix.minimum(ix.multiply(large, large), 7).dtype == np.int64


INDICES: dict[str, Any] = {
    "select of coordinates": lambda: a.select(x < 5, x, x + y),
    "negative moduli": lambda: a.select(x < 5, x % -3, (x + y) % -8),
    "large steps": lambda: a.select(x < y, a.clamp(x * (1 << 40), 0, y), x + y),
    "data": lambda: a.clamp(d[x] * 4 + x * 3, x, x + y),
    "product": lambda: a.clamp(x * y * x * y * (1 << 30), 0, y),
}


@pytest.mark.parametrize("target", ["h200", "cpu"])
@pytest.mark.parametrize("kind", INDICES)
def test_searches_bound_any_index(kind: str, target: str) -> None:
    index: Expr = INDICES[kind]()
    image, f, g = Input("image", float32, 1), Func("f"), Func("g")
    f[y, x] = image.clamped()[index]
    g[y, x] = f[y, x] + 1
    pipeline = Pipeline(g.over(y=(0, 40), x=(0, 60)))
    bound = bind(pipeline, {i.name: (100,) for i in pipeline.inputs})
    assert STRATEGIES["beam"].search(bound, get_target(target)).ranked
