"""Ways of finding schedules behind one interface."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from autosched.analysis.bound import BoundPipeline
from autosched.schedule.types import Schedule
from autosched.search.analytical import analytical_model
from autosched.search.beam import BeamSearch
from autosched.search.cost import CostModel
from autosched.search.evaluate import Counts, Evaluator
from autosched.search.finish import legal_schedules
from autosched.search.roots import schedule_roots
from autosched.search.settings import SearchSettings
from autosched.search.sioutas.strategy import Sioutas
from autosched.search.splits import split_views
from autosched.search.state import State
from autosched.target import Target


@dataclass(frozen=True, slots=True)
class Ranked:
    """A legal schedule.

    Attributes:
        schedule: The schedule.
        seconds: Its predicted time, NaN where nothing predicted it.
        state: The state of the search it was made from, if it was made from one.
        evaluator: What costed its kernels, if something did.
    """

    schedule: Schedule
    seconds: float
    state: State | None = field(default=None, compare=False, repr=False)
    evaluator: Evaluator | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Found:
    """The result of a search.

    Attributes:
        ranked: Distinct legal schedules, the best first; there is at least one.
        counts: What was considered and pruned, and where the time went.
        seconds: Time of the whole search.
        cut_short: Whether the time budget ended it early.
        note: Why the result is not what the strategy would normally give, or empty.
        evaluator: What the strategy costed kernels with, if it did.
    """

    ranked: tuple[Ranked, ...]
    counts: Counts
    seconds: float
    cut_short: bool = False
    note: str = ""
    evaluator: Evaluator | None = field(default=None, compare=False, repr=False)

    @property
    def best(self) -> Schedule:
        """The schedule with the shortest predicted time."""
        return self.ranked[0].schedule


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

        Where reductions leave most of the device idle, they are tried in pieces, too, each time in an equal share of
        the time; the schedules are those of the way whose best one is predicted to be fastest.
        """
        started = time.perf_counter()
        views = split_views(bound, target) if self.settings.splits else [bound]
        share = None if seconds is None else seconds / len(views)
        results = [self._search(v, target, cost=cost, seconds=share, seed=seed, count=count) for v in views]
        best = min(results, key=lambda found: (math.isnan(found.ranked[0].seconds), found.ranked[0].seconds))
        cut_short = any(found.cut_short for found in results)
        return replace(best, seconds=time.perf_counter() - started, cut_short=cut_short)

    def _search(
        self, bound: BoundPipeline, target: Target, *, cost: CostModel | None, seconds: float | None, seed: int,
        count: int,
    ) -> Found:  # fmt: skip
        """Search one way of computing the pipeline's reductions."""
        started = time.perf_counter()
        evaluator = Evaluator(bound, target, cost or analytical_model(target), self.settings)
        search = BeamSearch(evaluator, np.random.default_rng(seed), None if seconds is None else started + seconds)
        states = search.run()
        ranked: list[Ranked] = []
        for schedule, state in legal_schedules(evaluator, states):
            ranked.append(Ranked(schedule, state.cost, state, evaluator))
            if len(ranked) == count:
                break
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
