"""The end of a time budget."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class Deadline:
    """Tells whether a time budget is used up, and remembers having said so.

    Args:
        at: Value of `time.perf_counter` at its end, or None if there is none.
    """

    at: float | None
    cut_short: bool = field(init=False, default=False)

    def passed(self) -> bool:
        """Return whether the time is over."""
        self.cut_short = self.cut_short or (self.at is not None and time.perf_counter() >= self.at)
        return self.cut_short
