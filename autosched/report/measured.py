"""Times of a schedule for a report."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autosched.errors import InputError
from autosched.measure.backend import SIMULATED_SOURCE


@dataclass(frozen=True, slots=True)
class MeasuredCandidate:
    """One of the compared schedules.

    Attributes:
        predicted_seconds: The cost model's prediction; NaN without one.
        seconds: The measured time; None if the candidate failed.
        note: Reason of the failure, or a remark.
    """

    predicted_seconds: float
    seconds: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """Times of a scheduled pipeline.

    Attributes:
        seconds: Time of one call.
        kernel_seconds: Time of each kernel in launch order, if known.
        candidates: The compared schedules, in the order of the list.
        source: Source of the times: ``measured:<device>`` or ``simulated:<device>``.

    Raises:
        InputError: If a time is negative or not finite.
    """

    seconds: float
    kernel_seconds: tuple[float, ...] | None = None
    candidates: tuple[MeasuredCandidate, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        """Refuse invalid times."""
        for seconds in (self.seconds, *(self.kernel_seconds or ())):
            if not math.isfinite(seconds) or seconds < 0:
                raise InputError(f"{seconds} s is no measured time; leave out times that were not measured")

    @property
    def is_simulated(self) -> bool:
        """Whether the times are simulated."""
        return self.source.startswith(SIMULATED_SOURCE)

    @property
    def verb(self) -> str:
        """``measured`` or ``simulated``."""
        return "simulated" if self.is_simulated else "measured"
