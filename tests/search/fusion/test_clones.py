"""Clones that fusion by dynamic programming chooses: copies by hand, limits, and a pipeline that is faster with one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, Var, float32, interpret, sqrt
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import FuncClone
from autosched.analysis.rewrites.func_cloning import clone_funcs, originals
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.legality.validate import validate
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.evaluate.cross_rewrite_cache import CrossRewriteCache
from autosched.search.evaluate.evaluator import KernelEvaluator, Verdicts
from autosched.search.fusion.clone_candidates import CloneCandidate, CloneCandidates
from autosched.search.fusion.clone_search import CloneSearch, all_clones
from autosched.search.fusion.fused_pipeline import fuse_pipeline
from autosched.search.fusion.group_graph import FusedGroup, GroupGraph
from autosched.search.fusion.settings import EXACT, FusionSettings
from autosched.search.guidance.guide import Guide
from autosched.search.settings import SearchSettings
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.strategies.protocol import DynamicProgramming
from autosched.target import get_target
from tests.lower.run_backends import random_inputs
from tests.search.fusion.random_graphs import FEW_TILES, random_outputs

H200, CPU = get_target("h200"), get_target("cpu")
y, x = Var("y"), Var("x")
WITHOUT = FusionSettings(clones=False)


def edges(size: int = 2046) -> BoundPipeline:
    """Return the magnitude of gradients, smoothed, and a thumbnail of it."""
    image, magnitude, smooth, thumbnail = Input("image", float32, 2), Func("magnitude"), Func("smooth"), Func("thumb")

    def at(dy: int, dx: int) -> object:
        return image[y + dy, x + dx]

    across = at(0, 2) - at(0, 0) + 2 * (at(1, 2) - at(1, 0)) + at(2, 2) - at(2, 0)  # type: ignore[operator]
    down = at(2, 0) - at(0, 0) + 2 * (at(2, 1) - at(0, 1)) + at(2, 2) - at(0, 2)  # type: ignore[operator]
    magnitude[y, x] = sqrt(across * across + down * down)
    smooth[y, x] = (
        magnitude[y, x] + magnitude[y, x + 1] + magnitude[y, x + 2]
        + magnitude[y + 1, x] + magnitude[y + 1, x + 1] + magnitude[y + 1, x + 2]
        + magnitude[y + 2, x] + magnitude[y + 2, x + 1] + magnitude[y + 2, x + 2]
    )  # fmt: skip
    thumbnail[y, x] = magnitude[8 * y, 8 * x]
    boxes = [smooth.over(y=(0, size), x=(0, size)), thumbnail.over(y=(0, size // 8), x=(0, size // 8))]
    return bind(Pipeline(boxes), {"image": (size + 4, size + 4)})


def test_recomputation_wins() -> None:
    """The thumbnail needs one point in 64, so its kernel computes these; the other one has a tile of magnitudes."""
    bound = edges()
    stored = DynamicProgramming(WITHOUT).search(bound, H200).ranked[0]
    recomputed = DynamicProgramming().search(bound, H200).ranked[0]
    assert recomputed.seconds < 0.95 * stored.seconds
    assert [c.func for c in recomputed.schedule.clones] == ["magnitude"] and not stored.schedule.clones
    assert {k.roots[0].tiling.stage.func for k in recomputed.schedule.kernels} == {"smooth", "thumb"}
    assert recomputed.schedule.materialised == {"smooth", "thumb"}
    validate(bound, recomputed.schedule, H200)
    assert from_json(to_json(bound, recomputed.schedule), bound) == recomputed.schedule


@pytest.mark.parametrize(("backend", "target"), [("emulator", H200), ("cpu", CPU)])
def test_results_do_not_change(backend: str, target: object) -> None:
    """A schedule that the search has found for large arrays, or one of its pipeline, on small ones."""
    small, chosen = edges(62), DynamicProgramming().search(edges(), H200).best.clones
    cloned = clone_funcs(small, chosen)
    schedule = DynamicProgramming(WITHOUT).search(cloned, target).best  # type: ignore[arg-type]
    assert schedule.clones == chosen
    inputs = random_inputs(small)
    found = ScheduledPipeline(small, schedule, target).compile(backend)(inputs)  # type: ignore[arg-type]
    for array, expected in zip(found, interpret(small.pipeline, inputs).values(), strict=True):
        np.testing.assert_array_equal(array, expected)


def shared_between() -> BoundPipeline:
    """Return ``f -> i``, where ``g`` reads ``f`` and ``i``, and ``h`` and ``k`` read ``i``."""
    image = Input("image", float32, 2)
    f, i, g, h, k = (Func(name) for name in "fighk")
    f[y, x] = image[y, x] / (1 + image[y, x + 1])
    i[y, x] = f[y, x] + 1
    g[y, x] = f[y, x] + f[y + 1, x] + i[y, x]
    h[y, x] = i[y, x] - i[y, x + 1]
    k[y, x] = i[y, x] * i[y + 1, x]
    box = {"y": (0, 64), "x": (0, 64)}
    return bind(Pipeline([func.over(**box) for func in (g, h, k)]), {"image": (80, 80)})


def test_copies_of_what_is_inlined_between() -> None:
    bound = shared_between()
    graph = GroupGraph(bound, frozenset({"i"}))
    groups = tuple(FusedGroup(name) for name in "ghkf")
    candidates = CloneCandidates(graph, groups, dict.fromkeys("ghkf", 1.0), H200)
    alone = candidates.copies(CloneCandidate(("f",), ("h",), "", 1.0))
    assert alone.clones == (FuncClone("i", ("h",)), FuncClone("f", ("i_clone",)))
    assert alone.owners == {"g": "g", "h": "h", "k": "k", "f": "f", "f_clone": "h"}
    assert alone.inlined == {"i", "i_clone"}
    everywhere = candidates.copies(CloneCandidate(("f",), ("g", "h"), "k", 1.0))
    assert everywhere.clones == (
        FuncClone("i", ("g",)), FuncClone("f", ("g", "i_clone")), FuncClone("i", ("h",)),
        FuncClone("f", ("i_clone2",)),
    )  # fmt: skip
    assert everywhere.owners["f"] == "k" and everywhere.owners["f_clone2"] == "h"
    cloned = clone_funcs(bound, everywhere.clones)
    assert set(cloned.funcs) - set(bound.funcs) == {"i_clone", "i_clone2", "f_clone", "f_clone2"}
    assert originals(cloned) == {"i_clone": "i", "i_clone2": "i", "f_clone": "f", "f_clone2": "f"}
    after = GroupGraph(cloned, everywhere.inlined)
    assert after.consumers["f"] == {"k"} and after.consumers["f_clone"] == {"g"}


def test_a_group_has_one_copy_of_a_func() -> None:
    image = Input("image", float32, 2)
    f, g, h, out = (Func(name) for name in ("f", "g", "h", "out"))
    f[y, x] = image[y, x] + 1
    g[y, x] = f[y, x] * 2
    h[y, x] = f[y, x] - 2
    out[y, x] = g[y, x] + h[y, x + 1]
    bound = bind(Pipeline([out.over(y=(0, 64), x=(0, 64))]), {"image": (80, 80)})
    graph = GroupGraph(clone_funcs(bound, [FuncClone("f", ("g",))]), frozenset())
    *members, last = (name for name in graph.consumers if name != "out")  # the last one is a copy, or the original
    (other,) = {"f", "f_clone"} - {last}
    assert not list(graph.extensions(FusedGroup("out", tuple(members))))
    assert list(graph.extensions(FusedGroup("out", tuple(n for n in members if n != other)))) == [last]


def test_owners_keep_groups_apart() -> None:
    bound = shared_between()
    graph = GroupGraph(bound, frozenset(), {"f": "f", "i": "i", "g": "g", "h": "h", "k": "k"})
    assert not any(list(graph.extensions(FusedGroup(name))) for name in bound.funcs)


def test_sets_of_clones() -> None:
    bound = shared_between()
    counts: dict[int, int] = {}
    for clones in all_clones(bound):
        copies = sum(c.func == "i" for c in clones)
        counts[copies] = counts.get(copies, 0) + 1
    # One to three copies of i, and one more consumer of f than these: 2, 5 and 15 partitions of f's consumers
    assert counts == {0: 1, 1: 3 * 5, 2: 15}
    assert {c.func for clones in all_clones(bound, frozenset({"i"})) for c in clones} == {"f"}


@pytest.mark.parametrize("seed", [12, 20, 22, 33, 36, 40, 41, 44])
def test_one_by_one_finds_the_cheapest_clones(seed: int) -> None:
    """These graphs are those of the first 60 with up to 40 sets of clones whose cheapest schedule has clones."""
    bound = random_outputs(seed)
    costs = [
        DynamicProgramming(settings, FEW_TILES).search(bound, H200).ranked[0].seconds
        for settings in (replace(EXACT, clones=False), replace(EXACT, every_clone=False), EXACT)
    ]
    assert costs[0] > costs[1] == pytest.approx(costs[2], rel=1e-9)


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_no_copies_save_more_than_estimated(seed: int) -> None:
    shared: CrossRewriteCache[Verdicts] = CrossRewriteCache()
    evaluator = KernelEvaluator(random_outputs(seed), H200, AnalyticalModel(H200), FEW_TILES, shared_cache=shared)
    fused = fuse_pipeline(evaluator, OptionEnumerator(evaluator), FusionSettings(), lambda: False, lambda: False)
    assert fused is not None
    search = CloneSearch(fused, FusionSettings(), shared)
    candidates = search._candidates(fused)
    for candidate in (c for cs in candidates.ranked(-1.0) for c in cs):
        trial = search._trial(fused, candidates.copies(candidate))
        assert trial is None or fused.cost - trial.cost <= candidate.saving


def test_no_clones_under_a_guide() -> None:
    guided = replace(SearchSettings(), guide=Guide(fuse=(("smooth", "magnitude"),)))
    assert not DynamicProgramming(settings=guided).search(edges(), H200).best.clones


def test_a_time_budget_ends_the_choice_of_clones() -> None:
    bound = edges()
    result = DynamicProgramming().search(bound, H200, seconds=0.05)
    assert result.cut_short
    validate(bound, result.best, H200)
