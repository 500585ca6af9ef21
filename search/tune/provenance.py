"""Provenance of a schedule, for reports and in files."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

SEARCHED, TUNED = "searched", "tuned"


@dataclass(frozen=True)
class Provenance:
    """Provenance of a schedule.

    Attributes:
        how: ``searched`` or ``tuned``.
        strategy: Name of the strategy, or ``one-shot``.
        samples: Number of drawn schedules.
        seed: Source of randomness.
        model: Name of the cost model, with the source of its labels; empty without a model.
        predicted_s: Predicted seconds; None without a prediction.
        measured_s: Measured or simulated seconds; None without a timing.
        source: Source of the times: ``measured:<device>`` or ``simulated:<target>``; empty without a timing.
        took_s: Seconds of the search.
        note: Note for users, or empty.
        reused: Whether the schedule comes from the user's cache.
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

    def to_data(self) -> dict[str, Any]:
        """Return data for `json`."""
        return asdict(self)
