"""What a measured or simulated schedule has to tell a training run."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import InputError

LONGEST_SECONDS = 100.0
"""Times above it are taken for something else than the schedule's own doing, and left out."""


class ProblemLike(Protocol):
    """A pipeline with all that binds it; picklable."""

    def bind(self) -> BoundPipeline:
        """Return the pipeline bound to its shapes and parameters."""

    def text(self) -> str:
        """Return the text that identifies it, the same in every process."""


@dataclass(frozen=True)
class Sample:
    """One schedule of one pipeline, with its labels.

    Attributes:
        problem: The pipeline.
        family: What is held out together: an app with all its sizes, or one random pipeline.
        schedule: The schedule as JSON.
        source: Where the labels come from, such as ``simulated:H200``.
        seconds: Time of the pipeline.
        kernel_seconds: Time of each kernel in launch order; empty where that is not known.
        registers: Registers of a thread of each kernel; empty where that is not known.
        spill_bytes: Bytes that a thread of each kernel spills; empty where that is not known.
    """

    problem: ProblemLike
    family: str
    schedule: str
    source: str
    seconds: float
    kernel_seconds: tuple[float, ...] = ()
    registers: tuple[int, ...] = ()
    spill_bytes: tuple[int, ...] = ()

    @property
    def schedule_key(self) -> str:
        """Short hash of the schedule's text."""
        return hashlib.sha256(self.schedule.encode()).hexdigest()[:20]

    @property
    def is_usable(self) -> bool:
        """Whether the label is a time that a schedule can take."""
        return math.isfinite(self.seconds) and 0 < self.seconds < LONGEST_SECONDS


def one_source(samples: Iterable[Sample]) -> str:
    """Return where the labels of all samples come from.

    Raises:
        InputError: They come from several sources, or there are no samples.
    """
    found = sorted({s.source for s in samples})
    if not found:
        raise InputError("there are no samples to train with; make some with scripts/make_dataset.py")
    if len(found) > 1:
        raise InputError(f"labels of {' and '.join(found)} cannot be mixed; choose one source")
    return found[0]


def by_problem(samples: Iterable[Sample]) -> Iterator[tuple[str, list[Sample]]]:
    """Yield the samples of each problem together, with its text, in the order of first occurrence."""
    found: dict[str, list[Sample]] = {}
    for s in samples:
        found.setdefault(s.problem.text(), []).append(s)
    yield from found.items()
