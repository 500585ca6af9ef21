"""Candidates of many problems for training data, with a record of finished problems in the database."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass

from autosched.measure.compile.content_keys import digest
from autosched.measure.job import Job
from autosched.measure.measurer import Measurer
from autosched.measure.problem import Problem
from autosched.measure.store.database import ResultsDatabase
from autosched.search.datasets.parallel_generation import GeneratedCandidates
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import Target

Generation = Generator[tuple[Problem, GeneratedCandidates], None, None]


@dataclass(frozen=True, slots=True)
class CandidateSupply:
    """Problems and the source of their schedules.

    Attributes:
        problems: The problems to measure.
        count: Number of schedules over all problems, if each problem has the requested number.
        draw: Yields problems with their schedules, in order.
        key: Returns a text that identifies the schedules of a problem.
    """

    problems: list[Problem]
    count: int
    draw: Callable[[Iterable[Problem]], Generation]
    key: Callable[[Problem], str]


class CandidateQueue:
    """Candidates of all unfinished problems, in order.

    Args:
        supply: The problems with their schedules.
        target: Device of the schedules.
        database: Stores the keys of finished problems.
        version: Label source and version of the code generator; a stored key is valid for one version.
        warn: Receives a message for each problem that lacks schedules.

    Attributes:
        done: Problems that have all their results.
        waited_s: Seconds spent waiting for schedules.
    """

    def __init__(
        self,
        supply: CandidateSupply,
        target: Target,
        database: ResultsDatabase,
        version: str,
        warn: Callable[[str], None],
    ) -> None:
        self.done = 0
        self.waited_s = 0.0
        self._supply = supply
        self._target = target
        self._database = database
        self._version = version
        self._warn = warn
        self._drawn: list[Problem] = []
        self._open: set[Problem] = set()

    def baseline(self, problem: Problem) -> Job:
        """Return the trusted candidate of a problem."""
        return Job.of(problem, schedule_roots(problem.bind(), self._target), self._target, origin="roots")

    def jobs(self) -> Generator[Job, None, None]:
        """Yield the candidates of the unfinished problems."""
        drawing = self._supply.draw(p for p in self._supply.problems if not self._is_done(p))
        started = time.perf_counter()
        with closing(drawing):
            for problem, drawn in drawing:
                self.waited_s += time.perf_counter() - started
                if drawn.note:
                    self.leave_open(problem)
                    self._warn(f"{problem.title} lacks schedules: {drawn.note}")
                yield from (Job(problem, text, self._target, origin=kind) for kind, text in drawn.schedules)
                self._drawn.append(problem)
                started = time.perf_counter()

    def leave_open(self, problem: Problem) -> None:
        """Do not record a problem as finished, so that a later run measures its missing candidates."""
        self._open.add(problem)

    def note_done(self, measurer: Measurer) -> None:
        """Record the problems that have all their results as finished."""
        for problem in [p for p in self._drawn if not measurer.on_their_way[p]]:
            self._drawn.remove(problem)
            self.done += 1
            if problem not in self._open:
                self._database.note(self._key(problem))

    def _is_done(self, problem: Problem) -> bool:
        is_done = self._database.has_note(self._key(problem))
        self.done += is_done
        return is_done

    def _key(self, problem: Problem) -> str:
        return digest("make_dataset", problem.text(), self._target.name, self._supply.key(problem), self._version)
