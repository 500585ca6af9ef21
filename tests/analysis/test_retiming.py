"""Retiming: sums over planes accumulated plane by plane; all backends agree, and results differ by rounding only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from autosched import Expr, Func, Input, Param, Pipeline, RDom, ScheduleError, Var, cast, interpret, select, sqrt
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import ComputationFolding, Retiming
from autosched.analysis.rewrites.retiming import retiming_error
from autosched.analysis.rewrites.statement import rewrite_statements
from autosched.lang.boundary import KINDS
from autosched.lang.dtypes import DType, float32, float64, int32, uint8
from autosched.measure.problem import Problem
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.rewrites import reassociated_pipeline
from autosched.search.rewrites.horizontal_fusion import fusion_rewrites
from autosched.search.rewrites.retiming import retiming_rewrites
from autosched.search.settings import SearchSettings
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.analysis.statement_cases import assert_all_witnesses, bordered, cross

H200 = get_target("h200")
z, y, x = Var("z"), Var("y"), Var("x")
ALONG_Z = Retiming("f", "z")
EXTENTS = (7, 5, 9)


def volume(
    value: Callable[[Callable[[int, int, int], Expr]], Expr], boundary: str = "clamped", dtype: DType = float64
) -> BoundPipeline:
    """Return a stencil of an array in three dimensions."""
    a, f = Input("a", dtype, 3), Func("f")
    at = bordered(a, boundary)
    f[z, y, x] = value(lambda dz, dy, dx: at[z + dz, y + dy, x + dx])
    box = {"z": (0, EXTENTS[0]), "y": (0, EXTENTS[1]), "x": (0, EXTENTS[2])}
    return bind(Pipeline(f.over(**box)), {"a": EXTENTS})


def star(a: Callable[[int, int, int], Expr]) -> Expr:
    c = Param("c", float64, 0.3)
    near = a(0, 0, -1) + a(0, 0, 1) + a(0, -1, 0) + a(0, 1, 0) + a(-1, 0, 0) + a(1, 0, 0)
    return a(0, 0, 0) * 2 - c * (near - 6 * a(0, 0, 0))


def integers(a: Callable[[int, int, int], Expr]) -> Expr:
    return a(1, 0, 0) * 3 - a(-1, 1, 0) + a(0, 0, 2) - (a(1, 1, 1) - a(-2, 0, 0)) * 2


def assert_near(bound: BoundPipeline, rewritten: BoundPipeline) -> None:
    """Compare the interpreter's results of two pipelines up to rounding."""
    a = {"a": np.random.default_rng(1).random(EXTENTS).astype(bound.inputs["a"].dtype.numpy)}
    expected, got = (next(iter(interpret(b.pipeline, a).values())) for b in (bound, rewritten))
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("boundary", KINDS)
def test_stars(boundary: str) -> None:
    bound = volume(star, boundary)
    rewritten = rewrite_statements(bound, [ALONG_Z])
    assert len(rewritten.funcs["f_planes"].dtypes) == 3
    assert_near(bound, rewritten)
    assert_all_witnesses(rewritten, rewritten, seeds=1, root=bound)


@pytest.mark.parametrize("dtype", [int32, uint8])
def test_integers_have_equal_bits(dtype: DType) -> None:
    """Integers wrap, so the order of their terms makes no difference."""
    bound = volume(integers, "mirrored", dtype)
    assert_all_witnesses(bound, rewrite_statements(bound, [ALONG_Z]))


FORMS: dict[str, tuple[Callable[[Callable[[int, int, int], Expr]], Expr], int]] = {
    "quotients": (lambda a: (a(-1, 0, 0) + a(1, 0, 0)) / 3.0 - a(0, 1, 0) / 7.0, 3),
    "negated sums": (lambda a: -(a(-1, 0, 0) - a(1, 0, 0)) + 1.5, 2),
    "invariant factors of tables": (lambda a: (a(-1, 0, 0) + a(2, 0, 0)) * cast(float64, x + 1), 2),
    "functions of one plane": (lambda a: sqrt(a(-1, 0, 0) * a(-1, 0, 1)) + a(1, 0, 0) * a(1, 0, -1), 2),
    "selected sums": (lambda a: select(x > 2, a(-1, 0, 0) + a(0, 0, 0), a(0, 0, 0) - a(1, 0, 0)), 4),
    "coordinates": (lambda a: a(-1, 0, 0) * cast(float64, z - 1) + a(1, 0, 0) * cast(float64, z + 1), 2),
    "far planes": (lambda a: a(-3, 0, 0) + a(2, 0, 0), 2),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    value, terms = FORMS[name]
    bound = volume(value)
    rewritten = rewrite_statements(bound, [ALONG_Z])
    assert len(rewritten.funcs["f_planes"].dtypes) == terms
    assert_near(bound, rewritten)
    assert_all_witnesses(rewritten, rewritten, seeds=1, root=bound)


def test_every_sub_statement_reads_one_plane() -> None:
    """The arm of a selection that keeps a value at the rim is a sub-statement as well."""
    rewritten = rewrite_statements(volume(lambda a: select(z > 0, star(a), a(0, 0, 0))), [ALONG_Z])
    stage = rewritten.funcs["f_planes"].stages[0]
    assert len(stage.values) == 4 and {repr(load.indices[0]) for load, _ in stage.loads} == {"z"}
    assert rewritten.funcs["f"].stages[0].sources == ("f_planes",)


def test_schedules_state_that_they_reassociate() -> None:
    bound = volume(star)
    rewritten = rewrite_statements(bound, [ALONG_Z])
    schedule = schedule_roots(rewritten, H200)
    assert schedule.reassociates and "retiming of f along z" in repr(schedule)
    assert reassociated_pipeline(bound, schedule) is rewritten
    assert not schedule_roots(
        rewrite_statements(cross("clamped", float32), [ComputationFolding("f")]), H200
    ).reassociates
    text = to_json(bound, schedule)
    assert '"kind": "retiming"' in text and from_json(text, bound) == schedule


def test_components_are_retimed_one_by_one() -> None:
    a, f = Input("a", float64, 3), Func("f")
    near = a.clamped()
    f[z, y, x] = (near[z - 1, y, x] + near[z + 1, y, x], near[z, y, x])
    box = {"z": (0, 7), "y": (0, 5), "x": (0, 9)}
    bound = bind(Pipeline(f.over(**box)), {"a": EXTENTS})
    rewritten = rewrite_statements(bound, [ALONG_Z])
    assert_all_witnesses(bound, rewritten, seeds=1)  # two terms have one order
    assert "reads one plane along z" in retiming_error(bound, replace(ALONG_Z, component=1))


REFUSED: list[tuple[Callable[[Callable[[int, int, int], Expr]], Expr], Retiming, str]] = [
    (lambda a: a(-1, 0, 0) * a(1, 0, 0), ALONG_Z,
     "f is not homogenizable along z: a_clamped[z - 1, y, x] * a_clamped[z + 1, y, x] reads the planes at -1, +1 and "
     "is no sum of terms that read one each"),
    (lambda a: sqrt(a(0, 0, 0) + a(1, 0, 0)), ALONG_Z,
     "f is not homogenizable along z: sqrt(a_clamped[z, y, x] + a_clamped[z + 1, y, x]) reads the planes at 0, +1 and "
     "is no sum of terms that read one each"),
    (lambda a: a(0, 1, 0) + a(0, -1, 0), ALONG_Z, "f reads one plane along z, so there is nothing to retime"),
    (star, Retiming("f", "t"), "f has no dimension 't' besides others"),
    (star, Retiming("g", "z"), "there is no Func 'g'"),
    (star, Retiming("f", "z", 1), "f has no component 1: it has 1"),
    (star, Retiming("a_clamped", "z"),
     "a_clamped has updates or a boundary condition; only Funcs with one definition are divided"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "retiming", "reason"), REFUSED, ids=range(len(REFUSED)))
def test_errors(value: Callable[[Callable[[int, int, int], Expr]], Expr], retiming: Retiming, reason: str) -> None:
    bound = volume(value)
    assert retiming_error(bound, retiming) == reason
    with pytest.raises(ScheduleError, match="remove this retiming, or make a new schedule"):
        rewrite_statements(bound, [retiming])


def test_updates_are_refused() -> None:
    a, f, r = Input("a", float32, 2), Func("f"), RDom("r", y=(0, 3))
    f[y, x] = 0.0
    f[y, x] += a[y + r.y, x]
    bound = bind(Pipeline(f.over(y=(0, 8), x=(0, 8))), {"a": (11, 8)})
    assert "has updates" in retiming_error(bound, Retiming("f", "y"))


@pytest.mark.parametrize(
    ("app", "retimed"),
    [("smoother27pt", 12), ("hypterm", 5), ("addsgd4", 0), ("rhs4center", 0), ("harris", 0)],
)
def test_the_search_retimes_only_where_asked(app: str, retimed: int) -> None:
    """Iterated stencils and sums of fluxes are homogenizable; products across planes are not (section III-B2)."""
    bound = Problem.app(app, small=True).bind()
    assert sum(len(b.statements) for b in retiming_rewrites(bound)) == retimed
    offered = fusion_rewrites(bound, H200, SearchSettings(retiming=True))
    assert any(isinstance(s, Retiming) for b in offered for s in b.statements) == bool(retimed)
    plain = fusion_rewrites(bound, H200, SearchSettings())
    assert not any(isinstance(s, Retiming) for b in plain for s in b.statements)
