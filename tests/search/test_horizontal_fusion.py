"""Horizontal fusion in the search: groups of outputs, and results that agree with the backends."""

from __future__ import annotations

import pytest

from autosched import Func, Input, Pipeline, Var, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import HorizontalFusion
from autosched.lower.program import lower
from autosched.measure.problem import Problem
from autosched.schedule.legality.validate import violations
from autosched.search.rewrites.horizontal_fusion import fusion_rewrites
from autosched.search.settings import PAPER, SearchSettings
from autosched.search.strategies.protocol import Beam
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree

H200 = get_target("h200")
y, x = Var("y"), Var("x")


def fields(rows: int = 60, columns: int = 70, *, shift: bool = False) -> BoundPipeline:
    """Return three outputs, of which two read one image; with ``shift`` the third reads it over another region."""
    a, b = Input("a", float32, 2), Input("b", float32, 2)
    edge = a.clamped()
    across, down, other = Func("across"), Func("down"), Func("other")
    across[y, x] = edge[y, x - 1] + edge[y, x + 1] - 2 * edge[y, x]
    down[y, x] = edge[y - 1, x] + edge[y + 1, x] - 2 * edge[y, x]
    other[y, x] = b[y, x] + (edge[y, x] if shift else 3)
    box = {"y": (0, rows), "x": (0, columns)}
    last = other.over(y=(0, rows), x=(0, columns - shift))
    return bind(
        Pipeline([across.over(**box), last, down.over(**box)], "fields"), {"a": (rows, columns), "b": (rows, columns)}
    )


@pytest.mark.parametrize("shift", [False, True])
def test_outputs_with_shared_sources_are_fused(shift: bool) -> None:
    bound = fields(shift=shift)
    first, joined = fusion_rewrites(bound, H200, SearchSettings(horizontal_fusion=True))
    assert first is bound and joined.fusions == (HorizontalFusion(("across", "down")),)
    assert fusion_rewrites(joined, H200, SearchSettings(horizontal_fusion=True)) == [joined]
    assert [name for name, _, _ in joined.output_components] == ["across", "other", "down"]


def test_outputs_that_read_each_other_are_fused() -> None:
    a = Input("a", float32, 2)
    twice, more = Func("twice"), Func("more")
    twice[y, x] = a[y, x] * 2
    more[y, x] = twice[y, x] + 1
    box = {"y": (0, 20), "x": (0, 30)}
    bound = bind(Pipeline([twice.over(**box), more.over(**box)], "chain"), {"a": (20, 30)})
    _, joined = fusion_rewrites(bound, H200, SearchSettings(horizontal_fusion=True))
    assert joined.fusions == (HorizontalFusion(("twice", "more")),)


def test_horizontal_fusion_is_off_by_default() -> None:
    bound = fields()
    assert fusion_rewrites(bound, H200, PAPER) == fusion_rewrites(bound, H200, SearchSettings()) == [bound]
    assert fusion_rewrites(bound, get_target("cpu"), SearchSettings(horizontal_fusion=True)) == [bound]


@pytest.mark.parametrize(
    ("app", "together"),
    [("hypterm", [5]), ("diffterm", [4]), ("addsgd4", [3]), ("rhs4center", [3]), ("harris", []), ("blur", [])],
)
def test_apps(app: str, together: list[int]) -> None:
    views = fusion_rewrites(
        Problem.app(app, small=True).bind(), H200, SearchSettings(rfactor=False, horizontal_fusion=True)
    )
    assert [len(j.funcs) for v in views[1:] for j in v.fusions] == together


def test_beam_search_fuses_outputs_where_predicted_faster() -> None:
    bound = fields(2000, 2100)
    settings = SearchSettings(beam_size=2, passes=1, horizontal_fusion=True)
    found = Beam(settings).search(bound, H200)
    assert found.best.fusions == (HorizontalFusion(("across", "down")),)
    assert violations(bound, found.best, H200) == []
    small = fields()
    assert_backends_agree(small, lower(small, Beam(settings).search(small, H200).best))
