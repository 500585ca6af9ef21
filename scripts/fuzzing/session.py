"""A resumable run over numbered programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from fuzzing.check import DIED, FAILURES, HUNG, REFUSED_LEGAL, Failure, Outcome
from fuzzing.families import FAMILIES, draw_family, write_program
from fuzzing.program import Program
from fuzzing.records import Records, Row
from fuzzing.script import script
from fuzzing.shrink import Budget, shrink
from fuzzing.trials import SAMPLED, Trial, trials_of
from fuzzing.worker_pool import LIMIT_S, ProgramWorkers, Task

SCRIPTS_ALIKE = 3
"""Most failures of one signature that are shrunk; further ones only count."""
NOT_SHRUNK = (HUNG, REFUSED_LEGAL)
"""Kinds that are not shrunk: each probe of a hang takes the whole limit; parts of a legal program may be illegal."""
SEEDS = 4
"""Random schedules per smaller program, as the same seed gives a different schedule for it."""


@dataclass
class Session:
    """Checks numbered programs and records the outcomes.

    Attributes:
        out: Directory of rows and scripts.
        jobs: Worker processes.
        limit_s: Processor seconds after which a program counts as hanging.
        budget: Factory of the budget of shrinking.
    """

    out: Path
    jobs: int = 1
    limit_s: float = LIMIT_S
    budget: Callable[[], Budget] = Budget
    shrunk: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def run(self, numbers: Iterable[int]) -> Iterator[Row]:
        """Check the unfinished programs; yield their rows after writing.

        Raises:
            BlockingIOError: If another run writes to the same directory.
        """
        records = Records(self.out)
        with records.open_to_append():
            yield from self._run(records, numbers)

    def _run(self, records: Records, numbers: Iterable[int]) -> Iterator[Row]:
        self.shrunk.update(r.signature for r in records.rows() if r.script)
        done = records.done()
        with ProgramWorkers(self.jobs, self.limit_s) as crew, ProgramWorkers(1, self.limit_s) as prober:
            for task, outcome, seconds in crew.outcomes(task_of(n) for n in numbers if n not in done):
                row = _row(task, outcome, seconds)
                if outcome.failures:
                    row = replace(row, script=self._kept(task, outcome.failures[0], prober))
                records.append(row)
                yield row

    def _kept(self, task: Task, failure: Failure, prober: ProgramWorkers) -> str:
        """Write the shrunk script of a failure, up to a number per signature; return its path."""
        self.shrunk[failure.signature] += 1
        if self.shrunk[failure.signature] > SCRIPTS_ALIKE:
            return ""
        program = task.program
        if failure.kind not in NOT_SHRUNK:
            program, failure = shrunk(task, failure, prober, self.budget())
        path = self.out / f"program_{program.number}.py"
        path.write_text(script(program, failure, draw_family(program.number)), encoding="utf-8")
        return str(path)


def task_of(number: int) -> Task:
    """Return the task of a numbered program."""
    family = draw_family(number)
    return Task(write_program(family, number), trials_of(number), FAMILIES[family].legal, family)


def shrunk(task: Task, failure: Failure, prober: ProgramWorkers, budget: Budget) -> tuple[Program, Failure]:
    """Return a smaller program with a failure of the same kind, and the failure."""
    last = [failure]

    def fails(candidate: Program) -> bool:
        outcome = prober.outcome(replace(task, program=candidate, trials=_again(failure, task.trials)))
        matching = [f for f in outcome.failures if _same(f, failure)]
        last[:] = matching[:1] or last
        return bool(matching)

    return shrink(task.program, fails, budget), last[0]


def _same(failure: Failure, wanted: Failure) -> bool:
    if wanted.kind == DIED:
        return failure.kind == DIED and failure.message == wanted.message
    return failure.signature == wanted.signature


def _again(failure: Failure, trials: tuple[Trial, ...]) -> tuple[Trial, ...]:
    """Return trials to reproduce a failure: its own, and for random schedules some more seeds."""
    if failure.kind == DIED:
        return trials
    if failure.trial is None:
        return ()
    if failure.trial.scheduler != SAMPLED:
        return (failure.trial,)
    return (failure.trial, *(replace(failure.trial, seed=k) for k in range(SEEDS)))


def _row(task: Task, outcome: Outcome, seconds: float) -> Row:
    first = outcome.failures[0] if outcome.failures else None
    return Row(
        number=task.program.number, family=task.key, verdict=outcome.verdict, seconds=round(seconds, 3),
        reason=first.message if first else outcome.reason, trials={k: round(s, 3) for k, s in outcome.seconds.items()},
        signature=first.signature if first else (),
    )  # fmt: skip


def failed(rows: Iterable[Row]) -> bool:
    """Whether any program failed."""
    return any(row.verdict in FAILURES for row in rows)
