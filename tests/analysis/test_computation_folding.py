"""Computation folding: values at shifted points in Funcs of their own, equal bits in all backends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autosched import Expr, Func, Input, Param, Pipeline, RDom, ScheduleError, Var, cast, clamp, select, sqrt
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import ComputationFolding, ExpressionFission
from autosched.analysis.rewrites.computation_folding import distinct_operations, folding_error, repeated_values
from autosched.analysis.rewrites.expression_fission import expression_fission_error
from autosched.analysis.rewrites.statement import rewrite_statements
from autosched.lang.boundary import KINDS
from autosched.lang.dtypes import DType, float32, float64, int32, uint8
from autosched.measure.problem import Problem
from autosched.search.rewrites.computation_folding import MOST_FOLDINGS, folding_rewrites
from autosched.search.rewrites.horizontal_fusion import fusion_rewrites
from autosched.search.rewrites.roofline import operation_seconds, roofline_seconds, transfer_seconds
from autosched.search.settings import PAPER, SearchSettings
from autosched.target import get_target
from tests.analysis.statement_cases import assert_all_witnesses, cross, star

CPU, H200 = get_target("cpu"), get_target("h200")
z, y, x = Var("z"), Var("y"), Var("x")
FOLD = ComputationFolding("f")


def bound_of(value: Callable[[Input, Input], Expr], dtype: DType = float32) -> BoundPipeline:
    a, row, f = Input("a", dtype, 2), Input("row", dtype, 1), Func("f")
    f[y, x] = value(a, row)
    pipeline = Pipeline(f.over(y=(2, a.shape[0] - 2), x=(2, a.shape[1] - 2)))
    return bind(pipeline, {i.name: (11, 17)[2 - i.ndim :] for i in pipeline.inputs})


@pytest.mark.parametrize("boundary", KINDS)
@pytest.mark.parametrize("dtype", [float64, float32, int32])
def test_two_dimensions(boundary: str, dtype: DType) -> None:
    bound = cross(boundary, dtype)
    rewritten = rewrite_statements(bound, [FOLD])
    assert len(rewritten.funcs) == len(bound.funcs) + 1
    assert_all_witnesses(bound, rewritten, seeds=1)


@pytest.mark.parametrize(("boundary", "dtype"), [*((kind, float64) for kind in KINDS), ("wrapped", int32)])
def test_three_dimensions(boundary: str, dtype: DType) -> None:
    bound = star(boundary, dtype)
    rewritten = rewrite_statements(bound, [FOLD])
    assert rewritten.funcs["f_folded"].extents == tuple(n + 2 for n in rewritten.funcs["f"].extents)
    assert_all_witnesses(bound, rewritten, seeds=1)


FORMS: dict[str, Callable[[Input, Input], Expr]] = {
    "a table of one dimension": lambda a, row: a[y, x - 1] * row[x - 1] + a[y, x] * row[x] - a[y, x + 1] * row[x + 1],
    "coordinates": lambda a, row: (a[y, x] + cast(float32, x) * 2) * (a[y, x + 1] + cast(float32, x + 1) * 2),
    "differences": lambda a, row: (a[y, x + 1] - a[y, x]) * (a[y, x] - a[y, x - 1]) + sqrt(a[y - 1, x - 1] * 0 + 2),
    "functions": lambda a, row: sqrt(a[y, x] + 100) - sqrt(a[y, x - 2] + 100),
    "constants in indices": lambda a, row: (a[0, x] + row[3]) - (a[0, x + 1] + row[3]),
    "other indices": lambda a, row: (a[y, x] * row[2 * x - x]) + (a[y + 1, x] * row[2 * x - x]),
    "values of one coordinate": lambda a, row: a[y, x] + (row[x] * 2 + 1) * (row[x + 2] * 2 + 1),
    "selects": lambda a, row: select(a[y, x] > 0, a[y, x] * 2, 1) + select(a[y + 1, x] > 0, a[y + 1, x] * 2, 1),
    "subtracted constants": lambda a, row: (a[y, x - 1] + a[y, 0 + x]) * (a[y, 2 + x - 1] + a[y, x + 3 - 1]),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    bound = bound_of(FORMS[name])
    assert not folding_error(bound, FOLD)
    assert_all_witnesses(bound, rewrite_statements(bound, [FOLD]), seeds=1)


def test_equal_expressions_at_one_point_are_no_repeats() -> None:
    bound = bound_of(lambda a, row: a[y, x] * 2 + row[x] * (a[y, x] * 2))
    assert "repeats 0 values at shifted points" in folding_error(bound, FOLD)


def test_values_with_other_operands_are_no_repeats() -> None:
    bound = bound_of(lambda a, row: (a[y, x] + a[y, x + 1]) * (a[y, x] + a[y, x + 2]) + (a[y, x] - row[x + 1]))
    assert not repeated_values(bound.pipeline.func("f").definitions[0].values)


def test_values_are_ordered_by_the_operations_saved() -> None:
    (name,) = {"output_4"}
    bound = Problem.app("hypterm", small=True).bind()
    first, *others = repeated_values(bound.pipeline.func(name).definitions[0].values)
    assert (len(set(first.offsets)), first.operations, first.saved) == (24, 1, 23)
    assert [r.saved for r in others] == [14, 14, 14]
    rewritten = rewrite_statements(bound, [ComputationFolding(name)])
    before, after = (distinct_operations(b.pipeline.func(name).definitions[0].values) for b in (bound, rewritten))
    folded = distinct_operations(rewritten.pipeline.func("output_4_folded").definitions[0].values)
    assert before - after - folded == first.saved


def test_foldings_follow_each_other_and_fissions() -> None:
    bound = cross("clamped", float32)
    chosen = (FOLD, ExpressionFission("f", 2), ComputationFolding("f_folded", 0))
    rewritten = rewrite_statements(bound, chosen[:2])
    assert rewritten.statements == chosen[:2] and rewritten.root_pipeline is bound
    assert_all_witnesses(bound, rewritten, seeds=1)
    assert "f_folded repeats 0 values" in folding_error(rewritten, chosen[2])


def test_guarded_reads_restrict_the_region_of_the_folded_value() -> None:
    a, f = Input("a", float32, 2), Func("f")
    f[y, x] = select(x < 4, a[y, x + 6] * 2 + 1, a[y, x] * 2 + 1)
    bound = bind(Pipeline(f.over(y=(0, 5), x=(0, 10))), {"a": (5, 10)})
    rewritten = rewrite_statements(bound, [FOLD])
    assert rewritten.funcs["f_folded"].region == ((0, 4), (4, 9))  # each arm has a range
    assert_all_witnesses(bound, rewritten, seeds=1)


def test_values_without_bounds_are_refused() -> None:
    """A condition on two coordinates keeps the read inside of the array; without it no box does."""
    a, f = Input("a", float32, 2), Func("f")
    at = x + 2 * y
    f[y, x] = select(at < 9, (a[y, at] * 3 + 1) * (a[y, at + 1] * 3 + 1), 0.0)
    bound = bind(Pipeline(f.over(y=(0, 5), x=(0, 9))), {"a": (5, 10)})
    assert "has no bounds" in expression_fission_error(bound, ExpressionFission("f", 2))
    assert folding_error(bound, FOLD).startswith("f repeats 0 values")  # at + 1 is no coordinate


REFUSED = [
    (ComputationFolding("g"), "there is no Func 'g'"),
    (ComputationFolding("f", 2), "f repeats 1 value at shifted points, so there is no number 2"),
    (ComputationFolding("a_clamped"), "a_clamped has updates or a boundary condition; only Funcs with one definition "
     "are divided"),
]  # fmt: skip


@pytest.mark.parametrize(("folding", "reason"), REFUSED, ids=range(len(REFUSED)))
def test_errors(folding: ComputationFolding, reason: str) -> None:
    a, f = Input("a", uint8, 1), Func("f")
    near = a.clamped()
    f[x] = near[x - 1] * 2 + near[x + 1] * 2
    bound = bind(Pipeline(f.over(x=(0, 9))), {"a": (9,)})
    assert folding_error(bound, folding) == reason
    with pytest.raises(ScheduleError, match="remove this folding, or make a new schedule"):
        rewrite_statements(bound, [folding])


def test_updates_and_terms_of_reductions_are_left_alone() -> None:
    a, f, r, n = Input("a", float32, 2), Func("f"), RDom("r", x=(0, 4)), Param("n", float32, 2.0)
    f[y, x] = a[y, x] * n + a[y, x + 1] * n
    f[y, x] += a[y, clamp(x + r.x, 0, 9)] * 2
    bound = bind(Pipeline(f.over(y=(0, 8), x=(0, 8))), {"a": (11, 17)})
    assert "only Funcs with one definition" in folding_error(bound, FOLD)


def test_the_search_folds_fluxes() -> None:
    bound = Problem.app("addsgd6", small=True).bind()
    (folded,) = folding_rewrites(bound)
    assert [s.func for s in folded.statements] == [f"output_{c}" for c in (0, 0, 0, 1, 1, 1, 2, 2, 2)]
    assert len(folded.statements) <= MOST_FOLDINGS
    assert folded in fusion_rewrites(bound, CPU, SearchSettings(narrowing=False))
    assert fusion_rewrites(bound, H200, PAPER) == [bound]


@pytest.mark.parametrize(
    ("app", "limit", "is_promising"),
    [("addsgd6", "transfers", False), ("rhs4center", "few operations saved", False), ("canny", "operations", True)],
)
def test_foldings_are_searched_where_operations_limit_a_gpu(app: str, limit: str, is_promising: bool) -> None:
    bound = Problem.app(app).bind()
    (folded,) = folding_rewrites(bound)
    operations, transfers = operation_seconds(bound, H200), transfer_seconds(bound, H200)
    assert (transfers > operations) == (limit == "transfers")
    assert (operation_seconds(folded, H200) <= 0.95 * operations) == (limit != "few operations saved")
    assert (folded in fusion_rewrites(bound, H200, SearchSettings())) == is_promising


def test_operations_at_the_peak_rate() -> None:
    a, f, g = Input("a", float64, 1), Func("f"), Func("g")
    f[x] = a[x] * 2 + 1
    g[x] = f[x] * 3
    bound = bind(Pipeline(g.over(x=(0, 1 << 20))), {"a": (1 << 20,)})
    assert operation_seconds(bound, H200) == pytest.approx(3 * (1 << 20) / (H200.peak_fp64_flops / 2))
    assert transfer_seconds(bound, H200) == pytest.approx(16 * (1 << 20) / (0.7 * H200.dram_bytes_per_s))
    assert roofline_seconds(bound, H200) == transfer_seconds(bound, H200)


@pytest.mark.parametrize("app", ["smoother27pt", "denoise", "harris", "blur"])
def test_apps_with_few_repeats_are_not_folded(app: str) -> None:
    assert folding_rewrites(Problem.app(app, small=True).bind()) == []
