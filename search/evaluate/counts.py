"""Counters and timers of one search."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field


@dataclass
class Counts:
    """Counts of one search.

    Attributes:
        kernels: Distinct kernels that were costed.
        asked: Requested kernels, those in the cache included.
        batches: Calls of the featurizer.
        considered: Candidates by kind of decision.
        pruned: Candidates left out, by reason.
        buckets: Buckets of alike candidates, by the number of candidates in them (rounded down to a power of two).
        seconds: Time by activity.
    """

    kernels: int = 0
    asked: int = 0
    batches: int = 0
    considered: Counter[str] = field(default_factory=Counter)
    pruned: Counter[str] = field(default_factory=Counter)
    buckets: Counter[int] = field(default_factory=Counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def hit_rate(self) -> float:
        """Share of the requested kernels that were in the cache."""
        return 1 - self.kernels / self.asked if self.asked else 0.0

    @property
    def mean_batch(self) -> float:
        """Kernels per call of the featurizer."""
        return self.kernels / self.batches if self.batches else 0.0
