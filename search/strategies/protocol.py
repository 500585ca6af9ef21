"""The interface of strategies, and the strategies by name."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.cost.protocol import CostModel
from autosched.search.evaluate.cross_rewrite_cache import CrossRewriteCache
from autosched.search.evaluate.evaluator import Verdicts
from autosched.search.fusion.settings import FusionSettings
from autosched.search.gc_pause import reduced_gc
from autosched.search.guidance.guided_settings import guided_rewrites
from autosched.search.results import SearchResult, baseline_alone
from autosched.search.rewrites.horizontal_fusion import fusion_rewrites
from autosched.search.rewrites.portfolio import RewriteSearch, search_portfolio
from autosched.search.settings import SearchSettings
from autosched.search.space.effort import TOO_LONG, affordable, is_too_long
from autosched.search.strategies.forma.forma_strategy import Forma
from autosched.search.strategies.polymage.polymage_strategy import Polymage
from autosched.search.strategies.sioutas.strategy import Sioutas
from autosched.target import Target


class Strategy(Protocol):
    """Finds schedules; every valid pipeline gets at least one."""

    def search(
        self, bound: BoundPipeline, target: Target, *, cost: CostModel | None = None, seconds: float | None = None,
        seed: int = 0, count: int = 1,
    ) -> SearchResult:  # fmt: skip
        """Return up to ``count`` distinct legal schedules, the best first.

        Args:
            bound: The pipeline with its shapes.
            target: Device limits.
            cost: Cost model; the analytical model by default.
            seconds: Time budget; when it ends, the most promising state is completed the shortest way.
            seed: Seed of random choices: equal seeds give equal schedules.
            count: Most schedules to return.
        """


@dataclass(frozen=True, slots=True)
class Roots:
    """Inlines cheap pointwise stages and computes every other stage in a kernel of its own."""

    def search(
        self, bound: BoundPipeline, target: Target, *, cost: CostModel | None = None, seconds: float | None = None,
        seed: int = 0, count: int = 1,
    ) -> SearchResult:  # fmt: skip
        """Return the baseline schedule; see `Strategy.search`."""
        return baseline_alone(bound, target)


@dataclass(frozen=True, slots=True)
class Beam:
    """Beam search with hierarchical sampling (Anderson).

    Attributes:
        settings: Beam size, passes, rewrites, options to try and pruning rules.
    """

    settings: SearchSettings = field(default_factory=SearchSettings)

    @reduced_gc()
    def search(
        self, bound: BoundPipeline, target: Target, *, cost: CostModel | None = None, seconds: float | None = None,
        seed: int = 0, count: int = 1,
    ) -> SearchResult:  # fmt: skip
        """Return the best schedules of all passes; see `Strategy.search`.

        Rewrites of the pipeline are searched as well (see `autosched.search.rewrites.portfolio`). The result is that of
        the rewrite whose best schedule is predicted to be fastest. With WARP among the locations there are two
        searches, one of them without it, which share the time budget.
        """
        return _search_rewrites(bound, target, self.settings, None, cost, seconds, seed, count)


@dataclass(frozen=True, slots=True)
class DynamicProgramming:
    """Fusion by dynamic programming over groups of Funcs (in the manner of Jangda and Bondhugula 2018).

    Attributes:
        fusion: Bounds of the dynamic program.
        settings: Rewrites, options to try, pruning rules and refinement, as for `Beam`. By default a round of
            refinement ends at the first neighbourhoods without a gain.
    """

    fusion: FusionSettings = field(default_factory=FusionSettings)
    settings: SearchSettings = field(default_factory=lambda: SearchSettings(refine_patience=1))

    @reduced_gc()
    def search(
        self, bound: BoundPipeline, target: Target, *, cost: CostModel | None = None, seconds: float | None = None,
        seed: int = 0, count: int = 1,
    ) -> SearchResult:  # fmt: skip
        """Return the schedules of the cheapest partitions, refined; see `Strategy.search`.

        Rewrites of the pipeline are searched as well, and with WARP twice, as by `Beam`.
        """
        return _search_rewrites(bound, target, self.settings, self.fusion, cost, seconds, seed, count)


def _search_rewrites(
    bound: BoundPipeline, target: Target, settings: SearchSettings, fusion: FusionSettings | None,
    cost: CostModel | None, seconds: float | None, seed: int, count: int,
) -> SearchResult:  # fmt: skip
    """Return the result of the rewrite whose best schedule is predicted to be fastest; see `Strategy.search`.

    Args:
        bound: The pipeline with its shapes.
        target: Device limits.
        settings: Settings of the search of each rewrite.
        fusion: Bounds of the dynamic program over groups; None for a beam search.
        cost: Cost model; the analytical model if None.
        seconds: Time budget, or None.
        seed: Seed of random choices.
        count: Most schedules to return.
    """
    started = time.perf_counter()
    if "warp" in settings.locations and target.kind == "cuda":
        # Later steps improve kernels without warp tiles alone, so a slightly slower state may end faster.
        without = replace(settings, locations=tuple(kind for kind in settings.locations if kind != "warp"))
        part = None if seconds is None else seconds / 2
        tried = [_search_once(bound, target, s, fusion, cost, part, seed, count) for s in (without, settings)]
        best = _fastest(tried)
        return replace(best, seconds=time.perf_counter() - started, cut_short=any(r.cut_short for r in tried))
    return _search_once(bound, target, settings, fusion, cost, seconds, seed, count)


def _search_once(
    bound: BoundPipeline, target: Target, settings: SearchSettings, fusion: FusionSettings | None,
    cost: CostModel | None, seconds: float | None, seed: int, count: int,
) -> SearchResult:  # fmt: skip
    """Return the result of the best rewrite with these settings; see `_search_rewrites`."""
    started = time.perf_counter()
    model = cost or analytical_model(target)
    if is_too_long(bound):
        return baseline_alone(bound, target, TOO_LONG)
    settings = affordable(settings, bound)
    rewrites = guided_rewrites(fusion_rewrites(bound, target, settings), settings.guide)
    shared_cache: CrossRewriteCache[Verdicts] | None = CrossRewriteCache() if len(rewrites) > 1 else None
    searches = [RewriteSearch(r, target, model, settings, seed, shared_cache, fusion) for r in rewrites]
    results = list(search_portfolio(searches, seconds, count))
    best = _fastest(results)
    elapsed = time.perf_counter() - started
    late = seconds is not None and elapsed > seconds
    return replace(best, seconds=elapsed, cut_short=late or any(s.cut_short for s in searches))


def _fastest(results: Sequence[SearchResult]) -> SearchResult:
    """Return the result whose best schedule is predicted to be fastest; the first of equal ones."""
    return min(results, key=lambda result: (math.isnan(result.ranked[0].seconds), result.ranked[0].seconds))


STRATEGIES: Mapping[str, Strategy] = {
    "roots": Roots(),
    "beam": Beam(),
    "dp": DynamicProgramming(),
    "forma": Forma(),
    "forma-none": Forma(fuse=False),
    "polymage": Polymage(),
    "sioutas": Sioutas("nested"),
    "sioutas-overlapped": Sioutas("overlapped"),
    "sioutas-none": Sioutas("none"),
}
"""Strategies by name."""
