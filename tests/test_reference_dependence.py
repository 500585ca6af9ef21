"""The serial loops of updates in the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import autosched as a
from autosched import Func, Pipeline, RDom, Var, int32
from autosched.reference.buffers import ReferenceBuffer
from autosched.reference.dependence import injective_loops, serial_loops
from autosched.reference.program import Bindings
from autosched.reference.stage import stages_of
from autosched.reference.update import Update

y, x = Var("y"), Var("x")
R = RDom("r", p=(2, 6), q=(1, 4))
p, q = R.p, R.q


def update(write: Callable[[Func], None]) -> Update:
    """Return the first update of a Func over ``y, x``; its values lie from -20 to 20 in both dimensions."""
    f = Func("f")
    f[y, x] = 0
    write(f)
    stage = stages_of(f, Pipeline(f.over(y=(0, 4), x=(0, 4))), Bindings({}, {}))[1]
    buffer = ReferenceBuffer((-20, -20), (np.zeros((41, 41), np.int32),))
    return Update(stage, stage.pure(((0, 4), (0, 4))), buffer, Bindings({}, {}), {f: buffer})


def serial(at: Any, value: Callable[[Func], Any]) -> str:
    """Return the names of the serial loops of ``f[at] = value(f)``, outermost first."""

    def write(f: Func) -> None:
        f[at] = value(f)

    loops, _ = serial_loops(update(write))
    names = {p.order: "p", q.order: "q"}
    return "".join(names[key] for key, _ in loops if isinstance(key, int))


@pytest.mark.parametrize(
    ("at", "value", "expected"),
    [
        ((p, q), lambda f: f[p, q] + 1, ""),  # in place
        ((p, q), lambda f: f[p + 10, q] + f[p, q], ""),  # reads only points that are never written
        ((p, q), lambda f: f[-p, q] + q, ""),
        ((p, q), lambda f: f[p - 1, q] + q, "p"),
        ((p, q), lambda f: f[p, q - 1] + q, "q"),  # rows are independent although they are the outer loop
        ((p, q), lambda f: f[p - 1, q + 1] + 1, "p"),
        ((p, q), lambda f: f[p - 1, q - 1] + 1, "p"),
        ((p, q), lambda f: f[p - 1, q] + f[p, q - 1], "pq"),
        ((p, x), lambda f: f[p - 1, x] + 1, "p"),
        ((p, x), lambda f: f[p, x] * 2 + q, "q"),
        ((y, 3), lambda f: f[y, 3] * 2 + p + q, "pq"),
        ((y, x), lambda f: f[y, x] * 2 + p, "p"),
        ((y, p), lambda f: f[y, p - 1] + f[y, p + y], "p"),  # mixes a Var into the index
        ((y, p), lambda f: f[y, p - 6 - y] + 1, ""),
        ((y, 2 * p), lambda f: f[y, 2 * p + 1] + 1, ""),  # odd ones are never written
        ((y, p // 2), lambda f: f[y, p // 2] + 1, "p"),
        ((p % 2, q), lambda f: f[p % 2, q] - f[5, 5], "p"),
        ((p, q), lambda f: f[3, 2] + 1, "pq"),  # one iteration writes the point that the others read
        ((p + q, x), lambda f: f[p + q, x] * 3 + 1, "p"),
        ((p, q), lambda f: f[a.clamp(f[p, q], 0, 9), q] + 1, "pq"),  # at an index read from itself
    ],
)
def test_serial_loops(at: Any, value: Callable[[Func], Any], expected: str) -> None:
    assert serial(at, value) == expected


def test_a_loop_with_an_injective_index_is_parallel() -> None:
    def write(f: Func) -> None:
        f[3 - p, p + q] = a.cast(int32, q)

    assert injective_loops(update(write)) == {p.order}


def test_an_index_that_folds_does_not() -> None:
    def write(f: Func) -> None:
        f[p // 2, q] = a.cast(int32, p)

    assert injective_loops(update(write)) == {q.order}
