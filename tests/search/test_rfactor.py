"""Rfactor and atomic updates in the search, and the portfolio of rewrites."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import pytest

import autosched
from autosched import Func, Input, Pipeline, RDom, Var, cast, float32, int32, interpret, uint8
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.apps.registry import NAMES
from autosched.measure.problem import Problem
from autosched.measure.simulated.simulate import simulate
from autosched.schedule.types import Level
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.beam.beam import BeamSearch
from autosched.search.beam.state import State
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.rewrites import portfolio
from autosched.search.rewrites.horizontal_fusion import fusion_rewrites
from autosched.search.rewrites.portfolio import RewriteSearch
from autosched.search.rewrites.rfactor import LEAST_SHARE, contiguous_rfactors, rfactor_rewrites
from autosched.search.rewrites.warp_reductions import warp_reduction_rewrites
from autosched.search.settings import GREEDY, SearchSettings
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.strategies.protocol import Beam
from autosched.target import get_target

ROWS = NAMES[NAMES.index("softmax") : NAMES.index("box")]
H200, CPU = get_target("h200"), get_target("cpu")
GREEDY_WITH_PIECES = replace(GREEDY, rfactor=True, atomics="exact")
SHAPE = (160, 256)


def mean() -> Pipeline:
    image = Input("image", float32, 2)
    r, total, out = RDom("r", y=image.shape[0], x=image.shape[1]), Func("total"), Func("mean")
    total[()] = 0.0
    total[()] += image[r.y, r.x]
    out[()] = total[()] / (SHAPE[0] * SHAPE[1])
    return Pipeline([out], name="mean")


def histogram() -> Pipeline:
    b, image = Var("b"), Input("image", uint8, 2)
    r, hist = RDom("r", y=image.shape[0], x=image.shape[1]), Func("hist")
    hist[b] = cast(int32, 0)
    hist[cast(int32, image[r.y, r.x])] += 1
    return Pipeline([hist.over(b=(0, 256))], name="histogram")


def test_pipelines_that_occupy_the_device_have_no_rfactor() -> None:
    """At the papers' sizes, only the histogram and our own apps of sums and rows have reductions with few points."""
    views = [n for n in NAMES if len(rfactor_rewrites(Problem.app(n).bind(), H200)) > 1]
    assert views == ["hist", "layer_norm", "standardize", "kernel_regression", *ROWS]


def test_floating_point_atomics_are_opt_in() -> None:
    bound = Problem.app("bgu").bind()
    assert [len(rfactor_rewrites(bound, H200, atomics=a)) for a in ("none", "exact", "all")] == [1, 1, 2]


def test_scatter_updates_get_atomic_rfactors() -> None:
    *_, view = rfactor_rewrites(bind(histogram(), {"image": (2560, 1536)}), H200)
    split, *_ = view.rfactors
    assert split.atomic and split.func == "hist"
    assert [name for name, _ in split.loops] == ["r.y"], "rows are cut, so that neighbours stay together"
    assert split.loops[0][1] >= 3 * H200.multiprocessors
    assert not any(
        s.atomic for v in rfactor_rewrites(bind(histogram(), {"image": (2560, 1536)}), CPU) for s in v.rfactors
    )


def row_sums(rows: int, terms: int) -> BoundPipeline:
    image, y, out = Input("image", int32, 2), Var("y"), Func("out")
    r = RDom("r", i=terms)
    out[y] = 0
    out[y] += image[y, r.i]
    return bind(Pipeline(out.over(y=(0, rows)), name="rows"), {"image": (rows, terms)})


@pytest.mark.parametrize(
    ("cores", "rows", "terms", "parts"),
    [
        (2, 1, 30_000, 2),
        (3, 1, 30_000, 3),
        (2, 1, 30_005, 5),
        (4, 1, 7 * 5_001, 7),
        (1, 1, 30_000, 0),
        (2, 1, 30_003, 0),
        (2, 1, 4_000, 0),
        (2, 40, 30_000, 0),
    ],
    ids=[
        "two cores",
        "three cores",
        "five parts",
        "seven parts",
        "one core",
        "no equal parts",
        "too short",
        "many rows",
    ],
)
def test_long_reductions_have_contiguous_parts_for_the_cores(cores: int, rows: int, terms: int, parts: int) -> None:
    """Equal ones, so that no term needs a guard; where there are too few points for all cores."""
    bound, cpu = row_sums(rows, terms), replace(CPU, multiprocessors=cores)
    rfactors = contiguous_rfactors(bound, cpu)
    assert [s.loops[0] for s in rfactors] == ([("r.i", parts)] if parts else [])
    rewrites = rfactor_rewrites(bound, cpu)
    assert any(s.contiguous for v in rewrites for s in v.rfactors) == bool(parts)
    along_vectors = warp_reduction_rewrites(rewrites, cpu)
    assert [v.rfactors for v in along_vectors] == ([(), rfactors] if parts else [()])
    assert not any(s.contiguous for v in rfactor_rewrites(bound, H200) for s in v.rfactors)


def test_contiguous_parts_along_vectors_are_found_and_right() -> None:
    bound, cpu = row_sums(1, 4_000_000), replace(CPU, multiprocessors=2)
    picture = np.random.default_rng(0).integers(0, 1 << 20, (1, 4_000_000)).astype(np.int32)
    inputs = {"image": picture}
    scheduled = autosched.schedule(bound.pipeline, inputs=inputs, target=cpu, cost="analytical", reuse=False)
    assert any(s.contiguous for s in scheduled.schedule.rfactors)
    np.testing.assert_array_equal(scheduled.compile("cpu")(image=picture), picture.sum(1, dtype=np.int32))


def test_histogram_bins_are_privatised_in_shared_memory() -> None:
    """Each block has private bins, much faster than all other schedules."""
    bound = bind(histogram(), {"image": (1024, 768)})
    found = Beam(GREEDY_WITH_PIECES).search(bound, H200).ranked[0]
    without = Beam(GREEDY).search(bound, H200).ranked[0]
    assert any(s.atomic for s in found.schedule.rfactors)
    assert found.schedule.levels["hist_shared"] is Level.BLOCK
    times = [simulate(bound, r.schedule, H200).seconds for r in (found, without)]
    assert times[0] < times[1] / 3


def test_atomic_updates_are_right() -> None:
    bound = bind(histogram(), {"image": (160, 256)})
    image = np.random.default_rng(3).integers(0, 256, (160, 256), dtype=np.uint8)
    for r in Beam(GREEDY_WITH_PIECES).search(bound, H200, count=3).ranked:
        scheduled = ScheduledPipeline(bound, r.schedule, H200)
        for backend in ("cpu", "emulator"):
            np.testing.assert_array_equal(
                scheduled.compile(backend)(image=image), np.bincount(image.ravel(), None, 256)
            )


@pytest.mark.parametrize("target", [H200, CPU], ids=lambda t: t.name)
def test_sum_is_factored_until_threads_have_little_work(target: autosched.Target) -> None:
    whole, *others = rfactor_rewrites(bind(mean(), {"image": (2560, 1536)}), target)
    assert others
    for view in others:
        longest = [prod(d.extent for d in s.reductions) for f in view.funcs.values() for s in f.stages[1:]]
        assert max(longest) < prod(d.extent for d in whole.funcs["total"].stages[1].reductions)
        parts = 2 if any(r.contiguous for r in view.rfactors) else 4  # one for each core, at least two
        assert min(longest) >= min(LEAST_SHARE, parts)
        assert view.root_pipeline is whole


def test_cpu_scatter_updates_are_not_factored() -> None:
    assert len(rfactor_rewrites(bind(histogram(), {"image": (2560, 1536)}), CPU)) == 1


@pytest.mark.parametrize(("make", "dtype"), [(mean, np.float32), (histogram, np.uint8)])
def test_the_search_takes_them_where_they_pay(make: object, dtype: type) -> None:
    pipeline = make()  # type: ignore[operator]
    image = (np.random.default_rng(0).random(SHAPE) * 255).astype(dtype)
    found = autosched.schedule(pipeline, inputs={"image": image}, target="h200", strategy="beam")
    assert found.schedule.rfactors
    roots = schedule_roots(found.bound.root_pipeline, H200)
    seconds = simulate(found.bound, found.schedule, H200).seconds
    assert seconds < 0.25 * simulate(found.bound, roots, H200).seconds
    (expected,) = interpret(pipeline, {"image": image}).values()
    np.testing.assert_allclose(found.compile("emulator")(image=image), expected, rtol=1e-5)
    assert "part" in found.text()


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, BoundPipeline]]:
    """Record the rewrites that following searches search: greedily, or with all passes."""
    found: list[tuple[str, BoundPipeline]] = []

    class Noted(BeamSearch):
        def run(self) -> list[State]:
            found.append(("greedy", self.evaluator.bound))
            return super().run()

        def run_passes(self) -> list[State]:
            found.append(("passes", self.evaluator.bound))
            return super().run_passes()

    monkeypatch.setattr("autosched.search.rewrites.portfolio.BeamSearch", Noted)
    return found


def test_no_further_rewrite_is_searched_after_the_deadline(searched: list[tuple[str, BoundPipeline]]) -> None:
    bound = bind(mean(), {"image": (2560, 1536)})
    found = Beam().search(bound, H200, seconds=1e-3)
    assert searched == [("greedy", bound), ("passes", bound)] and found.cut_short
    searched.clear()
    assert not Beam(GREEDY_WITH_PIECES).search(bound, H200).cut_short
    assert [how for how, _ in searched] == ["passes"] * len(rfactor_rewrites(bound, H200)) and len(searched) > 1


@pytest.mark.parametrize("app", ["mean", "layer_norm", pytest.param("hist", marks=pytest.mark.fuzz)])
def test_dropped_rewrites_are_slower(app: str, searched: list[tuple[str, BoundPipeline]]) -> None:
    settings = SearchSettings(beam_size=4, passes=2)
    one = None if app == "mean" else get_app(app)
    bound = bind(mean(), {"image": (2560, 1536)}) if one is None else bind(one.build(), one.shapes())
    model = analytical_model(H200)
    found = Beam(settings).search(bound, H200)
    tried = {id(b): b for how, b in searched if how == "greedy"}
    whole = {id(b) for how, b in searched if how == "passes"}
    views = fusion_rewrites(bound, H200, settings)
    assert set(tried) == {id(v) for v in views} and whole < set(tried)
    alone = [
        f.ranked[0].seconds
        for v in views
        for f in portfolio.search_portfolio([RewriteSearch(v, H200, model, settings, 0)], None, 1)
    ]
    assert min(alone) == pytest.approx(found.ranked[0].seconds)


def test_only_the_best_rewrite_is_finished_without_refinement() -> None:
    settings = SearchSettings(beam_size=4, passes=2, refine=0)
    bound, model = bind(mean(), {"image": (2560, 1536)}), analytical_model(H200)
    views = fusion_rewrites(bound, H200, settings)
    (found,) = portfolio.search_portfolio([RewriteSearch(v, H200, model, settings, 0) for v in views], None, 1)
    alone = [
        f.ranked[0].seconds
        for v in views
        for f in portfolio.search_portfolio([RewriteSearch(v, H200, model, settings, 0)], None, 1)
    ]
    assert len(views) > 1 and found.ranked[0].seconds <= min(alone) * (1 + 1e-9)  # greedily first


def test_every_strategy_has_an_explanation() -> None:
    found = autosched.schedule(mean(), {"image": SHAPE}, "h200", samples=3, reuse=False)
    assert found.schedule.rfactors
    assert "total_part" in found._repr_html_()
    again = autosched.ScheduledPipeline(found.bound.root_pipeline, found.schedule, H200)
    assert again.text() == found.text()


def test_best_of_several_rewrites_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report predicts the kernels of the fastest rewrite."""
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path))
    found = autosched.schedule(mean(), {"image": SHAPE}, "h200", samples=4, top_k=4, measure="simulated")
    assert found.search_result is not None and found.search_result.evaluator is not None
    assert found.search_result.evaluator.bound.rfactors == found.schedule.rfactors
    found.report(tmp_path / "mean.html")
    whole = found.bound.root_pipeline
    baseline = autosched.ScheduledPipeline(whole, schedule_roots(whole, H200), H200, search_result=found.search_result)
    baseline.report(tmp_path / "roots.html")
    assert "total_part" in (tmp_path / "mean.html").read_text()
