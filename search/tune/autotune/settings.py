"""What a tuning run is asked to do."""

from __future__ import annotations

from dataclasses import dataclass, field

from autosched.errors import InputError
from autosched.model.train.fine_tuning import TuningSettings
from autosched.search.settings import SAMPLES, SearchSettings
from autosched.search.tune.arguments import LARGEST_SEED, check_whole


@dataclass(frozen=True)
class TuneSettings:
    """What a tuning run does.

    Attributes:
        iterations: Batches.
        samples: Candidates of a batch.
        searches: Searches of the first batch, of which the best and some others are measured; as in one-shot mode.
        mutations: Share of a batch that are changes of the fastest schedules so far; 0 as in the paper.
        weights: A file of weights to begin with; None for those that come with the package, or new ones if there are
            none; ``random`` for new ones.
        seed: Source of randomness.
        search: Settings of the one beam search of a batch.
        training: How weights are trained between batches.
    """

    iterations: int = 20
    samples: int = 80
    searches: int = SAMPLES
    mutations: float = 0.25
    weights: str | None = None
    seed: int = 0
    search: SearchSettings = field(default_factory=SearchSettings)
    training: TuningSettings = field(default_factory=TuningSettings)

    def __post_init__(self) -> None:
        check_whole("iterations", self.iterations, 1)
        check_whole("samples", self.samples, 2)
        check_whole("searches", self.searches, 1)
        check_whole("seed", self.seed, 0, LARGEST_SEED)
        if not isinstance(self.mutations, int | float) or not 0 <= self.mutations < 1:
            raise InputError(f"mutations is {self.mutations}: give a share of at least 0, below 1")
