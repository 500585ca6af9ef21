"""Scans over rows in the interpreter, against NumPy and against serial execution."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, clamp, float32, int32, interpret
from autosched import max as max_
from autosched import min as min_
from autosched.errors import BoundsError, DSLError

y, x = Var("y"), Var("x")
image = Input("image", float32, 2)


def scan(value, rows: int = 9, columns: int = 13) -> Pipeline:
    """Return ``m``, initially the image, with each row updated to ``value(m, r)``."""
    m, r = Func("m"), RDom("r", y=(1, rows))
    m[y, x] = image[y, x]
    m[r.y, x] = value(m, r)
    return Pipeline(m.over(y=(0, rows), x=(0, columns)))


@pytest.mark.parametrize(("rows", "columns"), [(9, 13), (2, 1), (300, 700)])
def test_seam_carving(rows: int, columns: int) -> None:
    def least(m, r):
        left, here, right = (m[r.y - 1, clamp(x + d, 0, columns - 1)] for d in (-1, 0, 1))
        return m[r.y, x] + min_(min_(left, here), right)

    picture = np.random.default_rng(0).random((rows, columns), np.float32)
    wanted = picture.copy()
    for k in range(1, rows):
        row = np.pad(wanted[k - 1], 1, mode="edge")
        wanted[k] += np.minimum(np.minimum(row[:-2], row[1:-1]), row[2:])
    found = interpret(scan(least, rows, columns), {"image": picture})["m"]
    assert np.array_equal(found, wanted)


def test_viterbi() -> None:
    seen, change, m = Input("seen", int32, 2), Input("change", int32, 2), Func("m")
    r = RDom("r", t=(1, 7), k=(0, 5))
    m[y, x] = seen[y, x]
    m[r.t, x] = max_(m[r.t, x], m[r.t - 1, r.k] + change[r.k, x])
    rng = np.random.default_rng(0)
    given = {"seen": rng.integers(-9, 9, (7, 5), np.int32), "change": rng.integers(-9, 9, (5, 5), np.int32)}
    wanted = given["seen"].copy()
    for t in range(1, 7):
        wanted[t] = np.maximum(wanted[t], (wanted[t - 1][:, None] + given["change"]).max(axis=0))
    assert np.array_equal(interpret(Pipeline(m.over(y=(0, 7), x=(0, 5))), given)["m"], wanted)


def test_two_loops_with_a_dependence_run_in_order() -> None:
    m, r = Func("m"), RDom("r", i=4, j=3)
    m[y, x] = image[y, x]
    m[r.i + r.j + 1, x] = m[r.i + r.j, clamp(x + 1, 0, 4)] * 0.5 + m[r.i + r.j + 1, x]
    picture = np.random.default_rng(0).random((7, 5), np.float32)
    wanted = picture.copy()
    for i in range(4):
        for j in range(3):
            moved = wanted[i + j, np.minimum(np.arange(5) + 1, 4)]
            wanted[i + j + 1] = moved * np.float32(0.5) + wanted[i + j + 1]
    assert np.array_equal(interpret(Pipeline(m.over(y=(0, 7), x=(0, 5))), {"image": picture})["m"], wanted)


def test_domains_include_reads_beyond_the_box() -> None:
    m, r = Func("m"), RDom("r", y=(1, 6))
    m[y, x] = image[y, x]
    m[r.y, x] = m[r.y - 1, 12 - x] + 1.0
    picture = np.random.default_rng(0).random((6, 13), np.float32)
    wanted = picture.copy()
    for k in range(1, 6):
        wanted[k] = wanted[k - 1][::-1] + 1
    found = interpret(Pipeline(m.over(y=(0, 6), x=(0, 3))), {"image": picture})["m"]
    assert np.array_equal(found, wanted[:, :3])


def test_slow_growth_of_a_domain_ends_at_the_clamp() -> None:
    m, r = Func("m"), RDom("r", y=(1, 60))
    m[y, x] = image[y, x]
    m[r.y, x] = m[r.y - 1, clamp(x + 1, 0, 99)] + 1.0
    picture = np.random.default_rng(0).random((60, 100), np.float32)
    wanted = picture.copy()
    for k in range(1, 60):
        wanted[k] = wanted[k - 1][np.minimum(np.arange(100) + 1, 99)] + 1
    found = interpret(Pipeline(m.over(y=(0, 60), x=(5, 8))), {"image": picture})["m"]
    assert np.array_equal(found, wanted[:, 5:8])


def test_rows_that_read_themselves_are_refused() -> None:
    pipeline = scan(lambda m, r: m[min_(r.y, 100), clamp(x + 1, 0, 12)] + 1.0)
    with pytest.raises(DSLError, match=r"'x' that it writes in the same step.*no order"):
        interpret(pipeline, {"image": np.zeros((9, 13), np.float32)})


def test_columns_without_end_are_refused() -> None:
    with pytest.raises(BoundsError, match="grows without bound"):
        interpret(scan(lambda m, r: m[r.y - 1, x - 1]), {"image": np.zeros((9, 13), np.float32)})
