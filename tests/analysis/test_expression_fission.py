"""Fission of an expression: partial values in Funcs of their own, equal bits in all backends."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched import Expr, Func, Input, Param, Pipeline, RDom, ScheduleError, Var, cast, clamp, interpret, select, sqrt
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.expressions.operation_count import operations
from autosched.analysis.pipeline_rewrites import ComponentFission, ExpressionFission, HorizontalFusion
from autosched.analysis.rewrites.component_fission import split_components
from autosched.analysis.rewrites.expression_fission import expression_fission_error
from autosched.analysis.rewrites.horizontal_fusion import fuse_outputs
from autosched.analysis.rewrites.statement import rewrite_statements
from autosched.lang.boundary import KINDS
from autosched.lang.dtypes import DType, float32, float64, int32, uint8
from autosched.measure.problem import Problem
from autosched.target import get_target
from tests.analysis.statement_cases import assert_all_witnesses, cross, star

CPU, H200 = get_target("cpu"), get_target("h200")
y, x = Var("y"), Var("x")


def bound_of(value: Callable[[Input], Expr], dtype: DType = float32) -> BoundPipeline:
    a, f = Input("a", dtype, 2), Func("f")
    f[y, x] = value(a)
    return bind(Pipeline(f.over(y=(1, a.shape[0] - 1), x=(1, a.shape[1] - 1))), {"a": (11, 17)})


@pytest.mark.parametrize("boundary", KINDS)
@pytest.mark.parametrize("dtype", [float64, float32, int32])
def test_two_dimensions(boundary: str, dtype: DType) -> None:
    bound = cross(boundary, dtype)
    parts = 2 + KINDS.index(boundary) % 3
    assert_all_witnesses(bound, rewrite_statements(bound, [ExpressionFission("f", parts)]), seeds=1)


@pytest.mark.parametrize("boundary", KINDS)
def test_three_dimensions(boundary: str) -> None:
    bound = star(boundary, float64)
    assert_all_witnesses(bound, rewrite_statements(bound, [ExpressionFission("f", 3)]), seeds=1)


def test_parts_have_nearly_equal_numbers_of_operations() -> None:
    bound = Problem.app("hypterm", small=True).bind()
    rewritten = rewrite_statements(bound, [ExpressionFission("output_4", 3)])
    counts = [operations(rewritten.funcs[name].stages[0]) for name in ("output_4_part", "output_4_part2", "output_4")]
    before = operations(bound.funcs["output_4"].stages[0])
    assert before <= sum(counts) <= before + 2 and max(counts) < 0.5 * before


def test_earlier_parts_are_read_by_later_ones() -> None:
    def sum_of_eight(a: Input) -> Expr:
        total = a[y, x] * 1.5
        for k in range(1, 8):
            total = total + a[y - k % 2, x - k % 3 + 1] * (1.5 + k)
        return total

    rewritten = rewrite_statements(bound_of(sum_of_eight), [ExpressionFission("f", 3)])
    assert rewritten.funcs["f_part"].consumers == ("f_part2",) and rewritten.funcs["f_part2"].consumers == ("f",)


def test_a_part_of_one_coordinate_has_one_dimension() -> None:
    bound = bound_of(lambda a: a[y, x] + sqrt(cast(float32, x) * 1.5 + 2) * (cast(float32, x) + 1))
    rewritten = rewrite_statements(bound, [ExpressionFission("f", 2)])
    assert rewritten.funcs["f_part"].dims == ("x",)
    assert_all_witnesses(bound, rewritten, seeds=1)


def test_components_and_later_rewrites() -> None:
    """A component of a tuple is split; fissions of components and fusions follow."""
    a, f, g = Input("a", float32, 2), Func("f"), Func("g")
    f[y, x] = (a[y, x] * 2 + a[y, x + 1] * 3 + 1, a[y, x] - 1)
    g[y, x] = a[y + 1, x] * f[y, x][0]
    box = {"y": (0, 9), "x": (0, 13)}
    bound = bind(Pipeline([f.over(**box), g.over(**box)]), {"a": (11, 17)})
    parts = rewrite_statements(bound, [ExpressionFission("f", 2)])
    split = split_components(parts, [ComponentFission("f", ((0,), (1,)))])
    fused = fuse_outputs(split, [HorizontalFusion(("f_0", "g"))])
    assert fused.root_pipeline is bound and fused.before_fission is parts
    assert [type(r).__name__ for r in fused.rewrites] == ["ExpressionFission", "ComponentFission", "HorizontalFusion"]
    assert [name for name, _, _ in fused.output_components] == ["f_0", "f_1", "g"]
    for rewritten in (parts, split, fused):
        assert_all_witnesses(bound, rewritten, seeds=1)
    assert rewrite_statements(fused, [ExpressionFission("f", 2)]) is parts


def test_equal_operands_are_one_part() -> None:
    """The expression is written twice, so that its nodes differ."""
    bound = bound_of(lambda a: (a[y, x] * 2 + a[y, x + 1]) * a[y, x] + (a[y, x] * 2 + a[y, x + 1]))
    rewritten = rewrite_statements(bound, [ExpressionFission("f", 2)])
    assert operations(rewritten.funcs["f"].stages[0]) == 2
    assert_all_witnesses(bound, rewritten, seeds=1)


def test_parts_are_stored_in_their_types() -> None:
    bound = bound_of(lambda a: cast(int32, a[y, x] * 3 + a[y, x - 1] * 7) * 5 + cast(int32, a[y, x]) * 2, uint8)
    rewritten = rewrite_statements(bound, [ExpressionFission("f", 2)])
    assert_all_witnesses(bound, rewritten)


REFUSED: list[tuple[ExpressionFission, str]] = [
    (ExpressionFission("g", 2), "there is no Func 'g'"),
    (ExpressionFission("f", 1), "a fission of f in 1 parts is none: give at least 2"),
    (ExpressionFission("f", 2, 1), "f has no component 1: it has 1"),
    (ExpressionFission("f", 9), "the 2 operations of f make 2 parts, not 9"),
]


@pytest.mark.parametrize(("fission", "reason"), REFUSED, ids=range(len(REFUSED)))
def test_errors(fission: ExpressionFission, reason: str) -> None:
    bound = bound_of(lambda a: a[y, x] * 2 + 1)
    assert expression_fission_error(bound, fission) == reason
    with pytest.raises(ScheduleError, match="remove this fission, or make a new schedule"):
        rewrite_statements(bound, [fission])


def test_updates_and_boundary_conditions_are_refused() -> None:
    a, f, r, n = Input("a", float32, 2), Func("f"), RDom("r", x=(0, 4)), Param("n", float32, 2.0)
    f[y, x] = a[y, x] * n + 1
    f[y, x] += a[y, x + r.x] * 2
    bound = bind(Pipeline(f.over(y=(0, 8), x=(0, 8))), {"a": (11, 17)})
    assert "only Funcs with one definition" in expression_fission_error(bound, ExpressionFission("f", 2))


def test_guarded_reads_keep_their_guards() -> None:
    bound = bound_of(lambda a: select(x > 3, a[y, clamp(x - 4, 0, 16)] * 2 + a[y, x] * 3, a[y, x] * 5 + 1))
    for parts in (2, 3):
        assert_all_witnesses(bound, rewrite_statements(bound, [ExpressionFission("f", parts)]), seeds=1)


def test_results_with_parameters() -> None:
    scale = Param("scale", float32, 1.25)
    bound = bound_of(lambda a: (a[y, x] * scale + 2) * (a[y, x + 1] - scale))
    rewritten = rewrite_statements(bound, [ExpressionFission("f", 2)])
    a = np.random.default_rng(0).random((11, 17), np.float32)
    for expected, got in zip(
        interpret(bound.pipeline, {"a": a}, {"scale": 3.0}).values(),
        interpret(rewritten.pipeline, {"a": a}, {"scale": 3.0}).values(),
        strict=True,
    ):
        np.testing.assert_array_equal(got, expected)
