"""The results database: each measurement is one transaction, and no candidate is measured twice."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autosched._version import __version__
from autosched.errors import DatabaseError, shortened
from autosched.measure.compile.content_keys import text_digest
from autosched.measure.compile.program_version import marked_version, program_version, without_addition
from autosched.measure.job import Job, Result, Status, Timing
from autosched.measure.store.row import COLUMNS, KERNEL_COLUMNS, StoredRow, read_row
from autosched.measure.store.schema import explained, open_file, transaction

BUSY_TIMEOUT_S = 30.0


class ResultsDatabase:
    """Measurements in a SQLite file, which several processes may use concurrently.

    Args:
        path: The file, which is created if missing.
        busy_timeout_s: Time limit of waiting for another process's transaction, in seconds.

    Raises:
        DatabaseError: If the file is no results database, is damaged, of another version, or cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str], *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self.path = Path(path)
        self._connection = open_file(self.path, busy_timeout_s)

    def __enter__(self) -> ResultsDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def record(self, result: Result) -> bool:
        """Store a result, in one transaction.

        A candidate has one result per target, source and version of the code generator: a stored time is kept, and a
        stored failure is replaced by a later result.

        Returns:
            Whether it was stored.

        Raises:
            DatabaseError: If it cannot be stored; the file is then unchanged.
        """
        with explained(self.path, "write to"), transaction(self._connection):
            problem = self._problem_id(result.job)
            stored = self._find(result.job, result.source, result.generator)
            if stored is not None:
                if stored[1] == Status.OK:
                    return False
                self._connection.execute("DELETE FROM results WHERE id = ?", (stored[0],))
            self._insert(problem, result)
        return True

    def retime(self, timings: Iterable[tuple[Job, Timing]], source: str, generator: str) -> None:
        """Replace the times of candidates in one transaction.

        Args:
            timings: Candidates with their new times, kernels included.
            source: Source of the times.
            generator: Version of the code generator.

        Raises:
            DatabaseError: If they cannot be replaced, or a candidate has no time; the file is then unchanged.
        """
        with explained(self.path, "write to"), transaction(self._connection):
            for job, timing in timings:
                stored = self._current(job, source, generator)
                if stored is None or stored[1] != Status.OK:
                    raise DatabaseError(f"{self.path}: {job.problem.title} has no time of this schedule to replace")
                self._connection.execute(
                    "UPDATE results SET seconds = ?, spread = ?, samples = ?, conditions = ?, date = ? WHERE id = ?",
                    (timing.seconds, timing.spread, timing.samples, json.dumps(dict(timing.conditions), sort_keys=True),
                     _now(), stored[0]),
                )  # fmt: skip
                self._connection.executemany(
                    "UPDATE kernels SET seconds = ? WHERE result = ? AND position = ?",
                    [(s, stored[0], n) for n, s in enumerate(timing.kernel_seconds)],
                )

    def status_of(self, job: Job, source: str, generator: str) -> Status | None:
        """Return the status of a candidate's measurement, or None if there is none.

        Raises:
            DatabaseError: If the file cannot be read.
        """
        with explained(self.path, "read"):
            stored = self._current(job, source, generator)
        return None if stored is None else self._status(stored[1])

    def note(self, key: str) -> None:
        """Store that some work is finished, such as all candidates of a problem.

        Args:
            key: Hash of the finished work.

        Raises:
            DatabaseError: If the file cannot be written.
        """
        with explained(self.path, "write to"), transaction(self._connection):
            self._connection.execute("INSERT OR IGNORE INTO notes (key, date) VALUES (?, ?)", (key, _now()))

    def has_note(self, key: str) -> bool:
        """Return whether `note` was called with a key.

        Raises:
            DatabaseError: If the file cannot be read.
        """
        with explained(self.path, "read"):
            cursor = self._connection.execute("SELECT count(*) FROM notes WHERE key = ?", (key,))
            return bool(cursor.fetchone()[0])

    def rows(
        self,
        *,
        source: str | None = None,
        status: Status | None = Status.OK,
        target: str | None = None,
        generator: str | None = None,
    ) -> Iterator[StoredRow]:
        """Yield stored results in the order they arrived.

        Args:
            source: Only labels of this source.
            status: Only results with this status; all for None.
            target: Only results for the target of this name.
            generator: Only results whose text this version of the code generator emits.

        Raises:
            DatabaseError: If the file cannot be read.
        """
        filters = {"source": source, "status": status, "target": target}
        values = {name: str(value) for name, value in filters.items() if value is not None}
        generator = None if generator is None else without_addition(generator)
        where = [f"r.{name} = :{name}" for name in values]
        if generator is not None:
            where.append("r.generator IN (:generator, :marked)")
            values |= {"generator": generator, "marked": marked_version(generator)}
        with explained(self.path, "read"):
            cursor = self._connection.execute(f"{_SELECT} WHERE {' AND '.join(where) or '1'} ORDER BY r.id", values)
            for fields in cursor:
                row = self._row(fields)
                if generator is None or row.is_of(generator):
                    yield row

    def counts(self) -> dict[tuple[str, Status], int]:
        """Return the number of results by source and status.

        Raises:
            DatabaseError: If the file cannot be read.
        """
        with explained(self.path, "read"):
            cursor = self._connection.execute(
                "SELECT source, status, count(*) FROM results GROUP BY 1, 2 ORDER BY 1, 2"
            )
            return {(source, self._status(status)): n for source, status, n in cursor}

    def sources(self) -> Counter[str]:
        """Return the number of times from each source.

        Raises:
            DatabaseError: If the file cannot be read.
        """
        return Counter({source: n for (source, status), n in self.counts().items() if status == Status.OK})

    def generators(self, source: str) -> list[str]:
        """Return the versions of the code generator of a source's times, the latest first.

        Programs with compiler workarounds count for the version without its addition.

        Raises:
            DatabaseError: If the file cannot be read.
        """
        query = "SELECT generator FROM results WHERE source = ? AND status = 'ok' GROUP BY 1 ORDER BY max(id) DESC"
        with explained(self.path, "read"):
            versions = [version for (version,) in self._connection.execute(query, (source,))]
        return list(dict.fromkeys(map(without_addition, versions)))

    def _problem_id(self, job: Job) -> int:
        document = json.loads(job.schedule)
        self._connection.execute(
            "INSERT INTO problems (hash, text, title, pipeline_hash, shapes) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (hash) DO NOTHING",
            (
                job.problem.hash,
                job.problem.text(),
                job.problem.title,
                document["pipeline"],
                json.dumps(document["shapes"], separators=(",", ":")),
            ),
        )
        cursor = self._connection.execute("SELECT id FROM problems WHERE hash = ?", (job.problem.hash,))
        return int(cursor.fetchone()[0])

    def _current(self, job: Job, source: str, generator: str) -> tuple[int, str] | None:
        """Return the stored measurement of the text that a version of the code generator emits."""
        marked = self._find(job, source, marked_version(generator))
        plain = None if marked else self._find(job, source, generator)
        if plain and program_version(generator, job.problem, job.schedule, job.target.name) != generator:
            return None
        return marked or plain

    def _find(self, job: Job, source: str, generator: str) -> tuple[int, str] | None:
        result: tuple[int, str] | None = self._connection.execute(
            "SELECT r.id, r.status FROM results r JOIN problems p ON p.id = r.problem WHERE p.hash = ? "
            "AND r.schedule_hash = ? AND r.target = ? AND r.source = ? AND r.generator = ?",
            (job.problem.hash, job.schedule_hash, job.target.name, source, generator),
        ).fetchone()
        return result

    def _insert(self, problem: int, result: Result) -> None:
        job, timing = result.job, result.timing
        values = {
            "problem": problem,
            "schedule_hash": job.schedule_hash,
            "schedule": job.schedule,
            "target": job.target.name,
            "source": result.source,
            "generator": result.generator,
            "status": str(result.status),
            "error": result.error,
            "origin": job.origin,
            "seed": job.seed,
            "emitted": text_digest(k.text for k in result.kernels) if result.kernels else None,
            "compiler": result.compiler,
            "release": __version__,
            "date": _now(),
        }
        if timing is not None:
            conditions = dict(timing.conditions)
            values |= {
                "seconds": timing.seconds,
                "spread": timing.spread,
                "samples": timing.samples,
                "driver": str(conditions.pop("driver", "")),
                "conditions": json.dumps(conditions, sort_keys=True),
            }
        names = ", ".join(values)
        marks = ", ".join(f":{name}" for name in values)
        cursor = self._connection.execute(f"INSERT INTO results ({names}) VALUES ({marks})", values)
        self._connection.executemany(
            "INSERT INTO kernels (result, position, key, emitted, seconds, registers, spill_bytes) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(cursor.lastrowid, *k) for k in _kernel_values(result, timing)],
        )

    def _status(self, stored: object) -> Status:
        try:
            return Status(str(stored))
        except ValueError as error:
            raise DatabaseError(
                f"{self.path}: column status of the results is {shortened(stored)}, which is no "
                "status; restore a copy of the file, or choose another path"
            ) from error

    def _row(self, fields: tuple[Any, ...]) -> StoredRow:
        identity, text, problem_hash, *others, schedule_hash = fields
        kernels = self._connection.execute(
            "SELECT seconds, key, registers, spill_bytes FROM kernels WHERE result = ? ORDER BY position", (identity,)
        ).fetchall()
        return read_row(
            f"row {identity} of the results in {self.path}",
            dict(zip(COLUMNS, [text, *others], strict=True)),
            {"problem": problem_hash, "schedule": schedule_hash},
            dict(zip(KERNEL_COLUMNS, zip(*kernels, strict=True), strict=False)),
        )


_SELECT = """
SELECT r.id, p.text, p.hash, p.pipeline_hash, r.schedule, r.target, r.source, r.generator, r.status, r.seconds,
       r.spread, r.error, r.origin, r.seed, r.compiler, r.driver, r.conditions, r.date, r.schedule_hash
FROM results r JOIN problems p ON p.id = r.problem"""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _kernel_values(result: Result, timing: Timing | None) -> Iterator[tuple[Any, ...]]:
    """Yield (position, key, emitted, seconds, registers, spill bytes) of each kernel."""
    seconds = timing.kernel_seconds if timing is not None else ()
    registers = timing.registers if timing is not None else ()
    spills = timing.spill_bytes if timing is not None else ()
    for n, k in enumerate(result.kernels):
        yield (
            n,
            k.key,
            k.text,
            seconds[n] if n < len(seconds) else None,
            registers[n] if n < len(registers) else k.registers,
            spills[n] if n < len(spills) else k.spill_bytes,
        )
