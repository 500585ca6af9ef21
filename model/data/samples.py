"""Samples of training data: measured or simulated schedules."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import InputError

LONGEST_SECONDS = 100.0
"""Longer times are considered errors and skipped."""


class ProblemLike(Protocol):
    """A pipeline with its shapes and parameters; picklable."""

    def bind(self) -> BoundPipeline:
        """Return the pipeline bound to its shapes and parameters."""

    def text(self) -> str:
        """Return a text that identifies the problem, equal in all processes."""


@dataclass(frozen=True)
class Sample:
    """One schedule of one pipeline, with its labels.

    Attributes:
        problem: The pipeline.
        family: Unit of held-out data: an app with all its sizes, or one random pipeline.
        schedule: The schedule as JSON.
        source: Source of the labels, such as ``simulated:H200``.
        seconds: Time of the pipeline.
        kernel_seconds: Time of each kernel in launch order; empty if unknown.
        registers: Registers of a thread of each kernel; empty if unknown.
        spill_bytes: Bytes that a thread of each kernel spills; empty if unknown.
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
        """Whether the label is a possible time."""
        return math.isfinite(self.seconds) and 0 < self.seconds < LONGEST_SECONDS


def one_source(samples: Iterable[Sample]) -> str:
    """Return the source of all samples' labels.

    Raises:
        InputError: There are several sources, or no samples.
    """
    sources = sorted({s.source for s in samples})
    if not sources:
        raise InputError("there are no samples to train with; make some with scripts/make_dataset.py")
    if len(sources) > 1:
        raise InputError(f"labels of {' and '.join(sources)} cannot be mixed; choose one source")
    return sources[0]


def by_problem(samples: Iterable[Sample]) -> Iterator[tuple[str, list[Sample]]]:
    """Yield the text and the samples of each problem, in the order of first occurrence."""
    groups: dict[str, list[Sample]] = {}
    for s in samples:
        groups.setdefault(s.problem.text(), []).append(s)
    yield from groups.items()
