"""Arguments and result of one-shot scheduling; free of imports of the search."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autosched.errors import InputError
from autosched.schedule.types import Schedule
from autosched.search.guidance.guide import Guide
from autosched.search.tune.arguments import LARGEST_SEED, check_seconds, check_switch, check_whole
from autosched.search.tune.effort_levels import Effort, effort_level, samples_of
from autosched.search.tune.provenance import Provenance
from autosched.settings import MOST_JOBS, settings

if TYPE_CHECKING:
    from autosched.search.results import SearchResult
    from autosched.search.strategies.protocol import Strategy
    from autosched.search.tune.cost_models import Choice
    from autosched.search.tune.top_k import Trials

ONE_SHOT = "one-shot"
STRATEGY_NAMES = (
    "roots",
    "beam",
    "dp",
    "forma",
    "forma-none",
    "polymage",
    "sioutas",
    "sioutas-overlapped",
    "sioutas-none",
)
"""Names of `autosched.search.strategies.protocol.STRATEGIES`, which imports every strategy."""
GUIDED = ("beam", "dp")
"""Names of the strategies that take a guide."""


@dataclass(frozen=True)
class Request:
    """Arguments of `autosched.schedule` that choose and limit the search.

    Attributes:
        strategy: A strategy or its name; None for samples that the model ranks.
        samples: Searches without a strategy, at most: a beam search and greedy ones; None for the effort's number.
        top_k: Above 1, this many of the best are measured and the fastest is chosen.
        cost: The cost model, as `cost_model` takes it.
        measure: Backend of the measurements: ``device`` or ``simulated``.
        seed: Source of randomness.
        seconds: Time budget of the search.
        reuse: Whether the user's schedule cache is read and written.
        effort: Effort of the search without a strategy.
        measure_finalists: Whether the best schedules are timed where the target is this machine's processor; None for
            the default of the environment.
        workers: Processes of the search without a strategy, this one included; None for the environment's number.
        guide: Choices of an expert, which the schedule meets.
    """

    strategy: str | Strategy | None = None
    samples: int | None = None
    top_k: int = 1
    cost: Choice = None
    measure: str = "device"
    seed: int = 0
    seconds: float | None = None
    reuse: bool = True
    effort: Effort = "default"
    measure_finalists: bool | None = None
    workers: int | None = None
    guide: Guide = field(default_factory=Guide)

    def __post_init__(self) -> None:
        if isinstance(self.strategy, str) and self.strategy not in STRATEGY_NAMES:
            raise InputError(f"unknown strategy {self.strategy!r}; there is {', '.join(STRATEGY_NAMES)}")
        check_whole("top_k", self.top_k, 1)
        effort_level(self.effort)
        if self.samples is not None:
            check_whole("samples", self.samples, 1)
        check_whole("seed", self.seed, 0, LARGEST_SEED)
        check_seconds(self.seconds)
        check_switch("measure_finalists", self.measure_finalists)
        if self.workers is not None:
            check_whole("workers", self.workers, 1, MOST_JOBS)
        if not isinstance(self.guide, Guide):
            raise InputError(
                f"guide is of type {type(self.guide).__name__}: give a Guide, or the path of a file with one"
            )
        if self.guide and isinstance(self.strategy, str) and self.strategy not in GUIDED:
            raise InputError(
                f"strategy {self.strategy!r} follows rules of its own and takes no guide: leave the strategy out, or "
                f"choose {' or '.join(GUIDED)}"
            )

    @property
    def searches(self) -> int:
        """Most searches without a strategy."""
        return samples_of(self.effort, self.samples, self.top_k)

    @property
    def processes(self) -> int:
        """Processes of the search."""
        return settings().workers if self.workers is None else self.workers

    @property
    def is_baseline(self) -> bool:
        """Whether the answer is the baseline schedule, which takes neither search nor cost model."""
        return self.strategy == "roots" and self.cost is None and self.top_k == 1

    def may_time_finalists(self) -> bool:
        """Return whether finalists are timed if the target is this machine's processor."""
        if self.strategy is not None or self.top_k > 1 or self.measure != "device" or self.guide:
            return False  # finalists include the baseline, which a guide may exclude
        if self.measure_finalists is not None:
            return self.measure_finalists
        return settings().host_timing and self.effort != "fast"  # timing takes longer than a fast search

    def may_time_versions(self) -> bool:
        """Return whether versions of a time loop are timed if the target is this machine's processor."""
        return self.may_time_finalists() or (self.top_k > 1 and self.measure == "device")


@dataclass(frozen=True)
class OneShotAnswer:
    """A schedule and its provenance.

    Attributes:
        schedule: The schedule.
        provenance: How it was found.
        search_result: The search; None for a schedule from the user's cache.
        trials: The measurements; None if nothing was measured.
    """

    schedule: Schedule
    provenance: Provenance
    search_result: SearchResult | None = None
    trials: Trials | None = None
