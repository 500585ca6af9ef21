"""The end of a time budget."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class Deadline:
    """The end of a time budget.

    Args:
        at: Value of `time.perf_counter` at the end; None for no limit.

    Attributes:
        cut_short: Whether `passed` has returned true.
    """

    at: float | None
    cut_short: bool = field(init=False, default=False)

    def passed(self) -> bool:
        """Return whether the time budget has ended."""
        self.cut_short = self.cut_short or (self.at is not None and time.perf_counter() >= self.at)
        return self.cut_short
