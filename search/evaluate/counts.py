"""Counters and timers of one search."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field


@dataclass
class Counts:
    """Statistics of a search.

    Attributes:
        kernels: Distinct kernels that were evaluated.
        requested: Kernels requested, cache hits included.
        batches: Calls of the featurizer.
        nests: Loop nests of the kernels in these calls, a measure of their time.
        considered: Candidates by kind of decision.
        pruned: Pruned candidates by reason.
        buckets: Buckets of candidates by size, rounded down to a power of two.
        seconds: Time by activity.
    """

    kernels: int = 0
    requested: int = 0
    batches: int = 0
    nests: int = 0
    considered: Counter[str] = field(default_factory=Counter)
    pruned: Counter[str] = field(default_factory=Counter)
    buckets: Counter[int] = field(default_factory=Counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, other: Counts) -> None:
        """Add the statistics of another search."""
        self.kernels += other.kernels
        self.requested += other.requested
        self.batches += other.batches
        self.nests += other.nests
        self.considered += other.considered
        self.pruned += other.pruned
        self.buckets += other.buckets
        for activity, seconds in other.seconds.items():
            self.seconds[activity] += seconds

    @property
    def hit_rate(self) -> float:
        """Share of cache hits among the requested kernels."""
        return 1 - self.kernels / self.requested if self.requested else 0.0

    @property
    def mean_batch(self) -> float:
        """Kernels per call of the featurizer."""
        return self.kernels / self.batches if self.batches else 0.0
