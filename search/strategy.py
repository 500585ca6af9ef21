"""Ways of finding schedules behind one interface."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from autosched.analysis.bound import BoundPipeline
from autosched.search.analytical import analytical_model
from autosched.search.baseline import baseline_first
from autosched.search.beam import BeamSearch
from autosched.search.cost import CostModel
from autosched.search.evaluate import Counts, Evaluator
from autosched.search.finish import legal_schedules
from autosched.search.joins import searched_views
from autosched.search.ranked import Found, Ranked
from autosched.search.roots import schedule_roots
from autosched.search.settings import SearchSettings
from autosched.search.sioutas.strategy import Sioutas
from autosched.search.walking import Walking
from autosched.target import Target


class Strategy(Protocol):
    """Finds schedules. Every valid pipeline gets one."""

    def search(
        self, bound: BoundPipeline, target: Target, *, cost: CostModel | None = None, seconds: float | None = None,
        seed: int = 0, count: int = 1,
    ) -> Found:  # fmt: skip
        """Return up to ``count`` distinct legal schedules, the best first.

        Args:
            bound: The pipeline with its shapes.
            target: Device limits.
            cost: Predicts times; the analytical model by default.
            seconds: Time budget; when it ends, the most promising way is followed to its end.
            seed: Source of randomness: the same seed gives the same schedules.
            count: How many schedules are wanted.
        """


@dataclass(frozen=True, slots=True)
class Roots:
    """Cheap pointwise stages inlined, every other stage in a kernel of its own."""

    def search(
        self, bound: BoundPipeline, target: Target, *, cost: CostModel | None = None, seconds: float | None = None,
        seed: int = 0, count: int = 1,
    ) -> Found:  # fmt: skip
        """Return the one schedule this strategy has; see `Strategy.search`."""
        started = time.perf_counter()
        ranked = Ranked(schedule_roots(bound, target), float("nan"))
        return Found((ranked,), Counts(), time.perf_counter() - started)


@dataclass(frozen=True, slots=True)
class Beam:
    """Beam search with hierarchical sampling (Anderson).

    Attributes:
        settings: Size of the beam, passes, what is tried and pruned.
    """

    settings: SearchSettings = field(default_factory=SearchSettings)

    def search(
        self, bound: BoundPipeline, target: Target, *, cost: CostModel | None = None, seconds: float | None = None,
        seed: int = 0, count: int = 1,
    ) -> Found:  # fmt: skip
        """Return the best schedules of all passes; see `Strategy.search`.

        Where reductions leave most of the device idle, they are tried in pieces, too, and with ``joins`` outputs that
        read the same together, each time in an equal share of the time that is left; once it is over, no further way is
        tried. The schedules are those of the way whose best one is predicted to be fastest.
        """
        started = time.perf_counter()
        views = searched_views(bound, target, self.settings)
        results: list[Found] = []
        for k, view in enumerate(views):
            left = None if seconds is None else seconds - (time.perf_counter() - started)
            if results and left is not None and left <= 0:
                break
            share = None if left is None else left / (len(views) - k)
            results.append(self._search(view, target, cost=cost, seconds=share, seed=seed, count=count))
        best = min(results, key=lambda found: (math.isnan(found.ranked[0].seconds), found.ranked[0].seconds))
        cut_short = any(found.cut_short for found in results) or len(results) < len(views)
        return replace(best, seconds=time.perf_counter() - started, cut_short=cut_short)

    def _search(
        self, bound: BoundPipeline, target: Target, *, cost: CostModel | None, seconds: float | None, seed: int,
        count: int,
    ) -> Found:  # fmt: skip
        """Search one way of computing the pipeline's reductions."""
        started = time.perf_counter()
        evaluator = Evaluator(bound, target, cost or analytical_model(target), self.settings)
        search = BeamSearch(evaluator, np.random.default_rng(seed), None if seconds is None else started + seconds)
        legal = itertools.islice(legal_schedules(evaluator, search.run()), count)
        walking = Walking(self.settings, search.late)
        ranked = walking.added(Ranked(schedule, state.cost, state, evaluator) for schedule, state in legal)[:count]
        ranked = baseline_first(ranked, evaluator, count, self.settings.baseline)
        note = ""
        if not ranked:
            ranked = [Ranked(schedule_roots(bound, target), float("nan"))]
            note = "no state of the search was legal in the end; this is the baseline schedule"
        return Found(tuple(ranked), evaluator.counts, time.perf_counter() - started, search.cut_short, note, evaluator)


STRATEGIES: Mapping[str, Strategy] = {
    "roots": Roots(),
    "beam": Beam(),
    "sioutas": Sioutas("nested"),
    "sioutas-overlapped": Sioutas("overlapped"),
    "sioutas-none": Sioutas("none"),
}
"""Strategies by name."""
