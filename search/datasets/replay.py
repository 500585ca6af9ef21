"""Schedules from existing labels, to be measured on another device without a search."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from typing import Self

from autosched.errors import InputError
from autosched.measure.compile.content_keys import digest
from autosched.measure.problem import Problem, interleave_evenly
from autosched.measure.store.labels import LabelTable, open_labels
from autosched.search.datasets.parallel_generation import GeneratedCandidates


class ReplayedSchedules:
    """The schedules of labels by problem, merged over all sources.

    Args:
        labels: The labels; failed measurements are skipped.

    Attributes:
        problems: Problems with schedules in the order of the labels, with apps evenly interleaved.

    Raises:
        InputError: If there are no schedules.
    """

    def __init__(self, labels: LabelTable) -> None:
        schedules: defaultdict[Problem, dict[str, str]] = defaultdict(dict)
        for row in labels.rows():
            schedules[row.problem].setdefault(row.schedule, row.origin)
        if not schedules:
            raise InputError(f"{labels.path} holds no times, so there are no schedules to measure here")
        self._schedules = dict(schedules)
        apps = [p for p in schedules if p.kind == "app"]
        self.problems = interleave_evenly([p for p in schedules if p.kind != "app"], apps)

    @classmethod
    def read(cls, paths: Sequence[str | os.PathLike[str]]) -> Self:
        """Return the schedules of a results database, or of one or several Parquet files.

        Raises:
            DatabaseError: If a file is missing, damaged or of another format.
            InputError: If there are no schedules, or the files have different kinds.
        """
        with closing(open_labels(paths)) as labels:
            return cls(labels)

    @property
    def count(self) -> int:
        """Schedules of all problems."""
        return sum(map(len, self._schedules.values()))

    def key(self, problem: Problem) -> str:
        """Return a hash of a problem's schedules."""
        return digest(*self._schedules[problem])

    def draw(self, problems: Iterable[Problem]) -> Generator[tuple[Problem, GeneratedCandidates], None, None]:
        """Yield problems with schedules, like `autosched.search.datasets.parallel_generation.generate_in_processes`."""
        for problem in problems:
            yield problem, GeneratedCandidates(tuple((kind, text) for text, kind in self._schedules[problem].items()))
