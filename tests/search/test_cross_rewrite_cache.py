"""The cache of verdicts that the rewrites of one pipeline share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, Var, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.schedule.types import StageId
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.cost.protocol import all_comparable
from autosched.search.evaluate.cross_rewrite_cache import CrossRewriteCache
from autosched.search.evaluate.evaluator import KernelEvaluator, Params, Verdicts
from autosched.search.rewrites import portfolio
from autosched.search.rewrites.horizontal_fusion import fusion_rewrites
from autosched.search.rewrites.portfolio import RewriteSearch
from autosched.search.settings import SearchSettings
from autosched.target import Target, get_target

H200, CPU = get_target("h200"), get_target("cpu")


def chain(*, scale: float = 0.5, offset: int = 1, rows: int = 60) -> BoundPipeline:
    """Bind a chain of three Funcs, of which the second depends on the arguments."""
    y, x, image = Var("y"), Var("x"), Input("image", float32, 2)
    twice, near, out = Func("twice"), Func("near"), Func("out")
    twice[y, x] = image[y, x] * 2.0
    near[y, x] = twice[y, x] * scale + twice[y, x + offset]
    out[y, x] = near[y, x] + 1.0
    return bind(Pipeline([out.over(y=(0, rows), x=(0, 100))]), {"image": (200, 200)})


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({}, {"twice", "near", "out"}),
        ({"scale": 0.25}, {"twice", "out"}),
        ({"offset": 2}, {"out"}),  # a larger region of the first is required
        ({"rows": 61}, set()),
    ],
)
def test_funcs_with_equal_definitions_and_regions_have_equal_ids(changed: dict[str, Any], same: set[str]) -> None:
    cache: CrossRewriteCache[None] = CrossRewriteCache()
    one, two = cache.func_ids(chain()), cache.func_ids(chain(**changed))
    assert {name for name in one if one[name] == two[name]} == same


def test_kernels_share_values_where_all_their_funcs_are_equal() -> None:
    cache: CrossRewriteCache[list[int]] = CrossRewriteCache()
    one, two = cache.func_ids(chain()), cache.func_ids(chain(scale=0.25))
    alone = KernelSketch((StageId("out", 0),))
    fused = KernelSketch((StageId("out", 0),), inlined=frozenset({"near"}))
    assert cache.shared(alone, one, first := [1]) is first
    assert cache.shared(alone, two, [2]) is first
    assert cache.shared(fused, one, third := [3]) is third
    assert cache.shared(fused, two, fourth := [4]) is fourth
    assert cache.shared(fused, one, [5]) is third


def searched(
    views: list[BoundPipeline], target: Target
) -> list[tuple[KernelEvaluator, set[tuple[KernelSketch, Params]]]]:
    """Search the rewrites of a pipeline; return the evaluator of each with the kernels it was requested to evaluate."""
    cache: CrossRewriteCache[Verdicts] = CrossRewriteCache()
    found = [
        RewriteSearch(v, target, analytical_model(target), SearchSettings(beam_size=4, passes=2), 0, cache)
        for v in views
    ]
    asked: dict[int, set[tuple[KernelSketch, Params]]] = {id(w.search.evaluator): set() for w in found}
    evaluate = KernelEvaluator.evaluate

    def spied(self: KernelEvaluator, wanted: Iterable[tuple[KernelSketch, Params]], *, prune: bool = False) -> None:
        kernels = list(wanted)
        asked.get(id(self), set()).update(kernels)
        evaluate(self, kernels, prune=prune)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KernelEvaluator, "evaluate", spied)
        assert list(portfolio.search_portfolio(found, None, 1))
    return [(w.search.evaluator, asked[id(w.search.evaluator)]) for w in found]


@pytest.mark.parametrize("target", [H200, CPU], ids=["h200", "cpu"])
@pytest.mark.parametrize("app", ["hist", "layer_norm", "standardize", "kernel_regression"])
def test_shared_verdicts_equal_those_of_each_rewrite_alone(app: str, target: Target) -> None:
    chosen = get_app(app)
    bound = bind(chosen.build(), chosen.shapes())
    views = fusion_rewrites(bound, target, SearchSettings())
    known: dict[int, KernelEvaluator] = {}
    shared = 0
    for evaluator, kernels in searched(views, target):
        alone = KernelEvaluator(evaluator.bound, target, evaluator.model, evaluator.settings)
        alone.evaluate(sorted(kernels, key=lambda k: (hash(k[0]), k[1])))
        for sketch, params in kernels:
            verdicts = evaluator.verdicts(sketch)
            shared += known.setdefault(id(verdicts), evaluator) is not evaluator
            found, expected = verdicts[params], alone.verdicts(sketch)[params]
            if not np.isnan(found.cost):
                assert np.array_equal(*all_comparable(np.array([[found.cost], [expected.cost]]))), sketch
            if not evaluator.dynamic_reads.get(sketch):
                assert found.reason == expected.reason or np.isnan(found.cost), sketch
    assert len(views) == 1 or shared > 10


def test_rewrites_with_a_slow_first_pass_get_no_further_passes() -> None:
    chosen = get_app("hist")
    bound = bind(chosen.build(), chosen.shapes())
    settings = SearchSettings(beam_size=4, passes=4, refine=0)

    def passes(best: float) -> tuple[float, int]:
        rewrite = RewriteSearch(bound, H200, analytical_model(H200), settings, 0)
        cost = rewrite.cost_of_passes(None, best)
        return cost, rewrite.search.evaluator.counts.requested

    whole, all_requested = passes(float("inf"))
    assert passes(whole) == (whole, all_requested)
    early, requested = passes(whole / 2)
    assert requested < all_requested and early >= whole
