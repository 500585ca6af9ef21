"""Fission and fusion of outputs: the versions of a pipeline, and a schedule file of each that gives equal bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, Var, float32, interpret
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import ComponentFission, ExpressionFission, HorizontalFusion
from autosched.measure.problem import Problem
from autosched.schedule.io.serialise import load_schedule, save_schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.rewrites.horizontal_fusion import fusion_rewrites
from autosched.search.rewrites.output_fission import (
    FissionVersion,
    fission_rewrites,
    fission_versions,
    shared_producers,
    wide_producers,
)
from autosched.search.settings import SearchSettings
from autosched.search.tune.cost_models import cost_model
from autosched.search.tune.fission_candidates import fission_candidates
from autosched.target import get_target
from tests.lower.run_backends import random_inputs
from tests.search.cpu_cases import TWO_CORES

H200 = get_target("h200")
QUICK = SearchSettings(beam_size=1, passes=1, refine=0, freeze=False)
y, x = Var("y"), Var("x")


def three_outputs(rows: int = 12, columns: int = 40) -> BoundPipeline:
    """Return three outputs of one image, with a shared producer that is itself a stencil."""
    a = Input("a", float32, 2)
    smooth, outputs = Func("smooth"), []
    near = a.clamped()
    smooth[y, x] = near[y, x - 1] + near[y, x] * 2 + near[y, x + 1]
    box = {"y": (0, rows), "x": (0, columns)}
    for c in range(3):
        f, value = Func(f"f{c}"), smooth[y, x] * (c + 1.5)
        for k in range(1, 12):
            value = value + smooth[y + k % 3 - 1, x + k % 4] * (k + c)
        f[y, x] = value
        outputs.append(f.over(**box))
    return bind(Pipeline(outputs, "three"), {"a": (rows, columns)})


def tuple_output() -> BoundPipeline:
    """Return a tuple of two values over one image."""
    a, f = Input("a", float32, 2), Func("f")
    near = a.clamped()
    f[y, x] = (near[y, x - 1] - near[y, x + 1], near[y - 1, x] - near[y + 1, x])
    return bind(Pipeline(f.over(y=(0, 12), x=(0, 40)), "pair"), {"a": (12, 40)})


def named(bound: BoundPipeline) -> dict[str, FissionVersion]:
    return {v.name: v for v in fission_versions(bound)}


def test_versions_of_outputs() -> None:
    versions = named(three_outputs())
    assert list(versions) == ["maxfuse", "trivial-fission", "group-fission"]
    assert versions["maxfuse"].bound.fusions == (HorizontalFusion(("f0", "f1", "f2")),)
    assert not versions["trivial-fission"].bound.rewrites and versions["trivial-fission"].roots == ("f0", "f1", "f2")
    assert versions["group-fission"].bound.fusions == (HorizontalFusion(("f1", "f2")),)
    assert shared_producers(versions["trivial-fission"].bound, ("f0", "f1", "f2")) == ("smooth",)
    assert shared_producers(versions["maxfuse"].bound, versions["maxfuse"].roots) == ()


def test_versions_of_a_tuple() -> None:
    versions = named(tuple_output())
    assert list(versions) == ["maxfuse", "trivial-fission"]
    assert versions["trivial-fission"].bound.fissions == (ComponentFission("f", ((0,), (1,))),)
    assert versions["trivial-fission"].roots == ("f_0", "f_1")


@pytest.mark.parametrize(("app", "cut"), [("smoother7pt", 5), ("helmholtz", 3)])
def test_kernels_recompute_at_most_four_points_or_one_stencil(app: str, cut: int) -> None:
    """Sweeps have halos of 1 and 2 points, so 5 and 3 of them share a kernel."""
    bound = Problem.app(app, small=True).bind()
    kept = wide_producers(bound)
    sweeps = [name for name, f in bound.funcs.items() if f.boundary is None]
    assert list(reversed(kept)) == sweeps[::-1][cut::cut][::-1]
    assert named(bound)["recompute-fission"].roots == ("output", *kept)


def test_wide_stencils_raise_the_limit() -> None:
    a, f, g, h = Input("a", float32, 1), Func("f"), Func("g"), Func("h")
    near = a.clamped()
    f[x] = near[x - 6] + near[x + 6]
    g[x] = f[x + 3] * 2
    h[x] = g[x + 3] + g[x]
    bound = bind(Pipeline(h.over(x=(0, 20))), {"a": (30,)})
    assert wide_producers(bound) == ()


def test_large_expressions_are_split() -> None:
    versions = named(Problem.app("hypterm", small=True).bind())
    assert versions["expression-fission"].bound.statements == (ExpressionFission("output_4", 2),)
    assert "output_4_part" in versions["expression-fission"].roots


def test_the_search_offers_fissions_of_large_outputs() -> None:
    bound = Problem.app("hypterm", small=True).bind()
    offered = fission_rewrites(bound)
    assert [type(r).__name__ for b in offered for r in b.rewrites] == ["HorizontalFusion"] * 2 + ["ExpressionFission"]
    assert not set(map(id, offered)) & set(map(id, fusion_rewrites(bound, H200, SearchSettings())))
    assert set(map(id, offered)) <= set(map(id, fusion_rewrites(bound, H200, SearchSettings(fission=True))))
    assert fission_rewrites(tuple_output()) == []  # too small for registers to matter


@pytest.mark.parametrize("make", [three_outputs, tuple_output])
def test_candidates_are_files_that_give_equal_bits(make: Callable[[], BoundPipeline], tmp_path: Path) -> None:
    bound = make()
    inputs = random_inputs(bound)
    expected = list(interpret(bound.pipeline, inputs).values())
    result = fission_candidates(bound, H200, cost_model("analytical", H200), QUICK)
    assert [c.name for c in result.found] == [v.name for v in fission_versions(bound)] and not result.refused
    assert len({len(c.schedule.kernels) for c in result.found}) > 1
    for candidate in result.found:
        path = tmp_path / f"{candidate.name}.json"
        save_schedule(path, bound, candidate.schedule)
        schedule = load_schedule(path, bound)
        assert schedule == candidate.schedule
        for backend in ("cpu", "emulator"):
            arrays = ScheduledPipeline(bound, schedule, H200).compile(backend)(inputs)
            for got, wanted in zip(arrays, expected, strict=True):
                np.testing.assert_array_equal(got, wanted)


def test_versions_without_a_legal_schedule_are_named() -> None:
    """Twelve inlined sweeps of 27 points are too much code for one kernel."""
    bound = Problem.app("smoother27pt", small=True).bind()
    result = fission_candidates(bound, H200, cost_model("analytical", H200), QUICK, seconds=20)
    assert result.refused == ("maxfuse", "recompute-fission") and not result.found


def test_given_roots_hold_on_a_cpu() -> None:
    bound = three_outputs()
    for candidate in fission_candidates(bound, TWO_CORES, cost_model("analytical", TWO_CORES), QUICK).found:
        roots = {name for k in candidate.schedule.kernels for name in k.root_funcs}
        assert "smooth" not in roots and candidate.spill_bytes == ()
