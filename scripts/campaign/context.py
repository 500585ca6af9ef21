"""Input of a step: options, earlier results, and the remaining time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from campaign.options import Options
from campaign.results import Part, Results


@dataclass(frozen=True)
class Outcome:
    """How a step ended.

    Attributes:
        finished: Whether the step is complete; otherwise a later call resumes it.
        message: One line about the result.
        failures: Number of parts with failures.
    """

    finished: bool
    message: str
    failures: int = 0


@dataclass
class Context:
    """Input and output of a step.

    Attributes:
        name: The step.
        options: Options of the campaign.
        results: Results of all steps so far; a step adds its parts.
        deadline: End of the step, by `time.monotonic`.
    """

    name: str
    options: Options
    results: Results
    deadline: float = field(default=float("inf"))

    @property
    def remaining(self) -> float:
        """Remaining seconds."""
        return max(self.deadline - time.monotonic(), 0.0)

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return self.remaining <= 0.0

    @property
    def parts(self) -> Mapping[str, Part]:
        """Results of this step so far, from this call and earlier ones."""
        return self.results.parts(self.name)

    def record(self, part: str, value: dict[str, Any]) -> None:
        """Store the result of a part of the step."""
        self.results.record(self.name, part, value)
