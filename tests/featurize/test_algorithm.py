"""Histogram of operations and access patterns of small pipelines, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, cast, exp, float32, float64, select, uint8
from autosched import sum as sum_over
from autosched.analysis.bind import bind
from autosched.apps import load_apps
from autosched.featurize.algorithm import OPERATIONS, PATTERNS, ROWS, TYPES, algorithm_features, patterns
from autosched.featurize.regions.nest_geometry import Ints
from autosched.schedule.types import StageId

y, x = Var("y"), Var("x")
image = Input("image", float32, 2)
lut = Input("lut", uint8, 1)
FLOAT, INT32, UINT8, BOOL = TYPES.index("float"), TYPES.index("32-bit integer"), TYPES.index("8-bit integer"), 0


def features(out: Func, func: str = "out", stage: int = 0) -> Ints:
    pipeline = Pipeline([out.over(y=(0, 30), x=(0, 30))])
    shapes = {i.name: (64,) * i.ndim for i in pipeline.inputs}
    return algorithm_features(bind(pipeline, shapes))[StageId(func, stage)]


def count(table: Ints, row: str, column: int) -> int:
    return int(table[ROWS.index(row), column])


def test_the_table_has_forty_rows_and_seven_columns() -> None:
    out = Func("out")
    out[y, x] = image[y, x]
    assert features(out).shape == (40, 7) == (len(ROWS), len(TYPES))
    assert len(OPERATIONS) == 24
    assert len(ROWS) == len(set(ROWS))


def test_operations_by_type() -> None:
    out = Func("out")
    v = image[y, x]
    out[y, x] = select(v < 0.5, exp(v), v / 3.0) + cast(float32, lut[x]) - v
    table = features(out)
    for row, n in {"select": 1, "lt": 1, "div": 1, "add": 1, "sub": 1, "call": 1, "input_load": 1, "cast": 1}.items():
        assert count(table, row, FLOAT) == n, row
    assert count(table, "input_load", UINT8) == 1
    assert count(table, "variable", INT32) == 2
    assert count(table, "mul", FLOAT) == 0


def test_a_repeated_operation_counts_once_and_is_shared() -> None:
    out = Func("out")
    twice = image[y, x] * 2.0
    out[y, x] = twice * twice
    table = features(out)
    assert count(table, "mul", FLOAT) == 2
    assert count(table, "shared", FLOAT) == 1


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        ([[1, 0], [0, 1]], ["pointwise", "transpose"]),
        ([[0, 1], [1, 0]], ["transpose"]),
        ([[0, 1]], ["broadcast"]),
        ([[1], [0]], ["slice"]),
        ([[2, 0], [0, 1]], []),
        ([[0.5, 0], [0, 1]], []),
        ([[1, 1], [0, 1]], []),
        ([[1, 0], [0, 0]], []),
        ([[np.nan, 0], [0, 1]], []),
    ],
)
def test_patterns_of_matrices(matrix: list[list[float]], expected: list[str]) -> None:
    assert patterns(np.array(matrix, float)) == expected


def test_accesses_by_kind_and_pattern() -> None:
    f, out = Func("f"), Func("out")
    f[y, x] = image[y, x] + image[y, x + 1] + image[x, y]
    out[y, x] = f[y, x] + f[2 * y, x] * f[y, 3] + cast(float32, lut[x])
    table = features(out, "f")
    assert count(table, "pointwise_input", FLOAT) == 2
    assert count(table, "transpose_input", FLOAT) == 3
    assert count(table, "pointwise_store", FLOAT) == 1
    table = features(out)
    assert count(table, "pointwise_func", FLOAT) == 1
    assert count(table, "broadcast_input", UINT8) == 1
    assert count(table, "broadcast_func", FLOAT) == 0
    assert count(table, "slice_func", FLOAT) == 0


def test_an_update_loads_itself_and_broadcasts_over_its_reduction() -> None:
    out, r = Func("out"), RDom("r", k=7)
    out[y, x] = sum_over(image[y + r.k, x], over=r, name="total")
    table = features(out, "total", 1)
    assert count(table, "self_load", FLOAT) == 1
    assert count(table, "broadcast_self", FLOAT) == 1
    assert count(table, "broadcast_store", FLOAT) == 1


def test_every_operation_occurs_in_the_suite_or_is_rare() -> None:
    total = np.zeros((len(ROWS), len(TYPES)), np.int64)
    for name in ("harris", "bilateral_grid", "camera_pipe", "hist", "canny", "sgemm"):
        app = load_apps()[name]
        pipeline, params = app.configure()
        for table in algorithm_features(bind(pipeline, app.shapes(app.small_sizes), params)).values():
            total += table
    absent = {row for row, n in zip(ROWS, total.sum(axis=1), strict=True) if n == 0}
    assert absent <= {"ne", "or", "not", *(f"slice_{kind}" for kind in ("self", "input", "store", "func"))}
    assert set(PATTERNS) == {r.rpartition("_")[0] for r in ROWS[24:]}


def test_doubles_have_a_column_of_their_own() -> None:
    out = Func("out")
    out[y, x] = cast(float64, image[y, x]) * 2.0
    assert count(features(out), "mul", TYPES.index("double")) == 1
