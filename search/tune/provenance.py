"""Provenance of a schedule, for reports and in files."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from autosched.runtime.timing.durations import format_time

SEARCHED, TUNED = "searched", "tuned"


@dataclass(frozen=True)
class Provenance:
    """Provenance of a schedule.

    Attributes:
        how: ``searched`` or ``tuned``.
        strategy: Name of the strategy, or ``one-shot``.
        samples: Number of drawn schedules.
        seed: Source of randomness.
        model: Name of the cost model of ``predicted_s``, with the source of its labels; empty if unknown.
        predicted_s: Predicted seconds of a call; None without a prediction.
        scale: Correction of ``predicted_s`` by measurements on this processor, or why there is none; empty where none
            was tried.
        measured_s: Measured or simulated seconds; None without a timing.
        source: Source of the times: ``measured:<device>`` or ``simulated:<target>``; empty without a timing.
        took_s: Seconds of the search.
        note: Note for users, or empty.
        reused: Whether the schedule comes from the user's cache.
        effort: Effort of the search; empty for a strategy of the caller's choice, and for tuning.
        guide: The expert's choices as JSON (`autosched.Guide`); empty without any.
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
    effort: str = ""
    scale: str = ""
    guide: str = ""

    def __repr__(self) -> str:
        by = f" by {self.model}" if self.model else ""
        scale = f", {self.scale}" if self.scale else ""
        times = [] if self.predicted_s is None else [f"predicted {format_time(self.predicted_s)}{by}{scale}"]
        times += [] if self.measured_s is None else [f"{format_time(self.measured_s)} by {self.source}"]
        reused = ", from the schedule cache" if self.reused else ""
        note = f"; {self.note}" if self.note else ""
        strategy = f" by {self.strategy}" if self.strategy else ""
        effort = f"{self.effort} effort, " if self.effort else ""
        guide = f", guide {self.guide}" if self.guide else ""
        samples = f"{self.samples} sample{'s' * (self.samples != 1)}"
        return (
            f"<Provenance: {', '.join([self.how + strategy, *times])}; {effort}{samples}, seed {self.seed}, "
            f"in {format_time(self.took_s)}{guide}{reused}{note}>"
        )

    def to_data(self) -> dict[str, Any]:
        """Return data for `json`."""
        return asdict(self)
