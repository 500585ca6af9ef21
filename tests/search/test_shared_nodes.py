"""Expressions whose nodes are shared have more paths than can be followed: every analysis visits a node once."""

from __future__ import annotations

import numpy as np
import pytest

import autosched
from autosched import Func, Input, Var, cast, float32, int32, select

DEPTH = 60
"""Levels of two paths each."""


def shared_nodes() -> autosched.Pipeline:
    """Return a pipeline of a chain in which each expression reads the one before twice, in values and indices."""
    x, y = Var("x"), Var("y")
    image = Input("image", float32, 2)
    table = Input("table", int32, 1)
    value = image[y, x] * 0.5
    index = cast(int32, table[x]) + cast(int32, x)
    for _ in range(DEPTH):
        value = select(value > 1.0, autosched.min(value, 0.5), autosched.max(value, -0.5))
        index = autosched.min(index, 7) + autosched.max(autosched.abs(index) % 2, 0)
    out = Func("out")
    out[y, x] = value + image[y, autosched.clamp(index, 0, 63)]
    return autosched.Pipeline([out], name="shared_nodes")


@pytest.mark.parametrize("strategy", [None, "roots", "sioutas", "dp"])
@pytest.mark.parametrize("target", ["cpu", "h200"])
def test_strategies_visit_shared_nodes_once(target: str, strategy: str | None) -> None:
    rng = np.random.default_rng(0)
    inputs = {"image": rng.random((8, 64), dtype=np.float32), "table": rng.integers(0, 5, 64, dtype=np.int32)}
    pipeline = shared_nodes()
    shapes = {name: array.shape for name, array in inputs.items()}
    scheduled = autosched.schedule(pipeline, shapes, target, strategy=strategy)
    found = scheduled.compile(backend="emulator" if target == "h200" else "cpu")(**inputs)
    np.testing.assert_array_equal(found, autosched.interpret(pipeline, inputs)["out"])
