"""Generated code of expressions and indices that are deeper than Python's recursion limit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import autosched as a
from autosched import Func, Input, Pipeline, Var, float32, int32
from autosched.lang.expr import Expr

DEPTH = 5000
x = Var("x")
values, table = Input("values", float32, 1), Input("table", int32, 1)
ARRAYS = {
    "values": np.linspace(-3, 3, 40, dtype=np.float32),
    "table": (np.arange(40) * 7 % 40).astype(np.int32),
}

STEPS: dict[str, tuple[int, Callable[[Expr, int], Expr]]] = {
    "sum": (DEPTH, lambda e, k: e * 0.5 + values[(x + k) % 40] if k % 50 == 0 else e + float(k % 3)),
    "select": (DEPTH // 2, lambda e, k: a.select(e > k % 5, e * 0.5, e + 1.0)),
    "index of remainders": (DEPTH // 3, lambda e, k: (e * 3 + x) % (k % 90 + 5)),
    "index of selects": (DEPTH // 2, lambda e, k: a.select(x == k, k * 7 % 40, e)),
    "gather": (DEPTH // 5, lambda e, k: table[a.clamp(e, 0, 39)]),
}
"""Number of operations and the operation, by kind; the first two build a value, the others an index."""


def pipeline(kind: str) -> Pipeline:
    depth, step = STEPS[kind]
    of_value = kind in ("sum", "select")
    e: Expr = values[x] if of_value else x + 0
    for k in range(depth):
        e = step(e, k)
    f = Func("f")
    f[x] = e if of_value else values[a.clamp(e, 0, 39)]
    return Pipeline(f.over(x=(0, 40)))


@pytest.mark.parametrize("kind", STEPS)
def test_backends_agree(kind: str) -> None:
    made = pipeline(kind)
    inputs = {i.name: ARRAYS[i.name] for i in made.inputs}
    wanted = a.interpret(made, inputs)["f"]
    for target, backend in (("cpu", "cpu"), ("h200", "emulator")):
        found = a.schedule(made, inputs=inputs, target=target, strategy="roots", reuse=False)
        assert np.array_equal(found.compile(backend)(inputs), wanted)
