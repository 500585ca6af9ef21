"""Where a schedule comes from: what reports say about it, and what is kept beside it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from autosched.runtime.timing.durations import format_time

SEARCHED, TUNED = "searched", "tuned"


@dataclass(frozen=True)
class Provenance:
    """How a schedule was found.

    Attributes:
        how: ``searched`` or ``tuned``.
        strategy: Name of the strategy, or ``one-shot``.
        samples: Schedules that were drawn.
        seed: Source of randomness.
        model: Name of the cost model, which says where its labels come from; empty if none was asked.
        predicted_s: Seconds by the model, None where it was not asked.
        measured_s: Measured or simulated seconds, None where nothing was timed.
        source: Where these come from: ``measured:<device>`` or ``simulated:<target>``; empty where nothing was timed.
        took_s: Seconds that finding it took.
        note: What a user should know, or empty.
        reused: Whether it was found in the user's cache.
    """

    how: str = SEARCHED
    strategy: str = ""
    samples: int = 1
    seed: int = 0
    model: str = ""
    predicted_s: float | None = None
    measured_s: float | None = None
    source: str = ""
    took_s: float = 0.0
    note: str = ""
    reused: bool = False

    def __repr__(self) -> str:
        times = [] if self.predicted_s is None else [f"predicted {format_time(self.predicted_s)} by {self.model}"]
        times += [] if self.measured_s is None else [f"{format_time(self.measured_s)} by {self.source}"]
        reused = ", from the schedule cache" if self.reused else ""
        note = f"; {self.note}" if self.note else ""
        strategy = f" by {self.strategy}" if self.strategy else ""
        return (
            f"<Provenance: {', '.join([self.how + strategy, *times])}; {self.samples} samples, seed {self.seed}, "
            f"in {format_time(self.took_s)}{reused}{note}>"
        )

    def to_data(self) -> dict[str, Any]:
        """Return it as data that `json` can write."""
        return asdict(self)
