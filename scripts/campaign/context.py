"""What a step is given: options, what was found before, and how much time is left."""

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
        finished: Whether nothing is left to be done; else a later call goes on with it.
        message: What came of it, in a line.
        failures: Parts that found something wrong.
    """

    finished: bool
    message: str
    failures: int = 0


@dataclass
class Context:
    """A step's surroundings.

    Attributes:
        name: The step.
        options: What the campaign is asked to do.
        results: What all steps found so far; a step adds to it part by part.
        deadline: When the step has to be done, by `time.monotonic`.
    """

    name: str
    options: Options
    results: Results
    deadline: float = field(default=float("inf"))

    @property
    def remaining(self) -> float:
        """Seconds that are left."""
        return max(self.deadline - time.monotonic(), 0.0)

    @property
    def is_late(self) -> bool:
        """Whether no time is left."""
        return self.remaining <= 0.0

    @property
    def parts(self) -> Mapping[str, Part]:
        """What this step found so far, in this call or earlier."""
        return self.results.parts(self.name)

    def record(self, part: str, value: dict[str, Any]) -> None:
        """Keep what was found in a part of the step."""
        self.results.record(self.name, part, value)
