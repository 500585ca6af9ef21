"""Where a schedule comes from: what reports say about it, and what is kept beside it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

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

    def to_data(self) -> dict[str, Any]:
        """Return it as data that `json` can write."""
        return asdict(self)
