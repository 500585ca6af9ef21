"""Schedules that were measured elsewhere, to be measured here: no search is needed, and devices can be compared."""

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
    """The schedules of labels by problem, those of all sources together.

    Args:
        labels: The labels; failures are left out.

    Attributes:
        problems: Those that have schedules, in the order of the labels, apps evenly among the others.

    Raises:
        InputError: If there are no schedules.
    """

    def __init__(self, labels: LabelTable) -> None:
        found: defaultdict[Problem, dict[str, str]] = defaultdict(dict)
        for row in labels.rows():
            found[row.problem].setdefault(row.schedule, row.origin)
        if not found:
            raise InputError(f"{labels.path} holds no times, so there are no schedules to measure here")
        self._schedules = dict(found)
        apps = [p for p in found if p.kind == "app"]
        self.problems = interleave_evenly([p for p in found if p.kind != "app"], apps)

    @classmethod
    def read(cls, paths: Sequence[str | os.PathLike[str]]) -> Self:
        """Return the schedules of a results database, or of one or several Parquet files.

        Raises:
            DatabaseError: If a file is missing, damaged or something else.
            InputError: If there are no schedules, or the files are not of one kind.
        """
        with closing(open_labels(paths)) as labels:
            return cls(labels)

    @property
    def count(self) -> int:
        """Schedules of all problems."""
        return sum(map(len, self._schedules.values()))

    def key(self, problem: Problem) -> str:
        """Return digits that tell a problem's schedules from others."""
        return digest(*self._schedules[problem])

    def draw(self, problems: Iterable[Problem]) -> Generator[tuple[Problem, GeneratedCandidates], None, None]:
        """Yield problems with schedules, like `autosched.search.datasets.parallel_generation.generate_in_processes`."""
        for problem in problems:
            yield problem, GeneratedCandidates(tuple((kind, text) for text, kind in self._schedules[problem].items()))
