"""Times of a schedule, as they are handed to a report."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autosched.errors import InputError
from autosched.measure.backend import SIMULATED_SOURCE


@dataclass(frozen=True, slots=True)
class MeasuredCandidate:
    """One of the schedules that were compared.

    Attributes:
        predicted_seconds: What the cost model predicted; NaN where nothing did.
        seconds: What was measured; None where the candidate could not be run.
        note: Why it was not run, or what is special about it.
    """

    predicted_seconds: float
    seconds: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """Times of a scheduled pipeline.

    Attributes:
        seconds: Time of one call.
        kernel_seconds: Time of each kernel in launch order, where that is known.
        candidates: The schedules that were compared, in the order they are to be listed.
        source: Where the times come from: ``measured:<device>`` or ``simulated:<device>``.

    Raises:
        InputError: If a time is negative or not finite.
    """

    seconds: float
    kernel_seconds: tuple[float, ...] | None = None
    candidates: tuple[MeasuredCandidate, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        """Refuse what is no time."""
        for seconds in (self.seconds, *(self.kernel_seconds or ())):
            if not math.isfinite(seconds) or seconds < 0:
                raise InputError(f"{seconds} s is no measured time; leave out what was not measured")

    @property
    def is_simulated(self) -> bool:
        """Whether no clock was read."""
        return self.source.startswith(SIMULATED_SOURCE)

    @property
    def verb(self) -> str:
        """What happened to get the times: ``measured`` or ``simulated``."""
        return "simulated" if self.is_simulated else "measured"
