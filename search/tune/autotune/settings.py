"""Settings of a tuning run."""

from __future__ import annotations

from dataclasses import dataclass, field

from autosched.errors import InputError
from autosched.model.train.fine_tuning import TuningSettings
from autosched.search.settings import MEASURED, SAMPLES, SearchSettings
from autosched.search.tune.arguments import LARGEST_SEED, check_whole


@dataclass(frozen=True)
class TuneSettings:
    """Settings of a tuning run.

    Attributes:
        iterations: Number of batches.
        samples: Candidates of a batch.
        searches: Searches of the first batch, as in one-shot mode; the best and a sample of the rest are measured.
        mutations: Share of mutations of the fastest schedules in a batch; 0 as in the paper.
        weights: File of initial weights; None for the bundled weights of measured times or, without any, new ones;
            ``random`` for new ones, which start from the analytical times.
        seed: Source of randomness.
        search: Settings of a batch's beam search, rewrites and refinements; by default those of one-shot mode,
            with fissions.
        training: Settings of the training between batches.
    """

    iterations: int = 20
    samples: int = 80
    searches: int = SAMPLES
    mutations: float = 0.25
    weights: str | None = None
    seed: int = 0
    search: SearchSettings = field(default_factory=lambda: MEASURED)
    training: TuningSettings = field(default_factory=TuningSettings)

    def __post_init__(self) -> None:
        check_whole("iterations", self.iterations, 1)
        check_whole("samples", self.samples, 2)
        check_whole("searches", self.searches, 1)
        check_whole("seed", self.seed, 0, LARGEST_SEED)
        if not isinstance(self.mutations, int | float) or not 0 <= self.mutations < 1:
            raise InputError(f"mutations is {self.mutations}: give a share of at least 0, below 1")
