"""Tables of the results database, and recognition of its files."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autosched.errors import DatabaseError

APPLICATION_ID = 0x41534348
"""Application ID in the header of every results database, which distinguishes it from other SQLite files."""
VERSION = 1
"""Version of the tables; files of other versions are refused."""

_TABLES = """
CREATE TABLE problems (
    id INTEGER PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,         -- of the text
    text TEXT NOT NULL,                -- autosched.measure.problem.Problem
    title TEXT NOT NULL,
    pipeline_hash TEXT NOT NULL,
    shapes TEXT NOT NULL               -- JSON: input name to extents
);
CREATE TABLE results (
    id INTEGER PRIMARY KEY,
    problem INTEGER NOT NULL REFERENCES problems (id),
    schedule_hash TEXT NOT NULL,
    schedule TEXT NOT NULL,            -- JSON in one line
    target TEXT NOT NULL,              -- name of the target it was made for
    source TEXT NOT NULL,              -- measured:<device> or simulated:<device>
    generator TEXT NOT NULL,           -- version of the code generator
    status TEXT NOT NULL,              -- autosched.measure.job.Status
    error TEXT NOT NULL DEFAULT '',
    origin TEXT NOT NULL DEFAULT '',   -- random, greedy, beam, mutation, roots
    seed INTEGER NOT NULL,
    seconds REAL,
    spread REAL,                       -- distance between the quartiles over the median
    samples INTEGER,
    emitted TEXT,                      -- hash of the emitted text of all kernels
    compiler TEXT NOT NULL DEFAULT '',
    driver TEXT NOT NULL DEFAULT '',
    conditions TEXT NOT NULL DEFAULT '{}',  -- JSON: clocks, threads, copies of the buffers
    release TEXT NOT NULL,             -- version of autosched
    date TEXT NOT NULL,                -- UTC, ISO 8601
    UNIQUE (problem, schedule_hash, target, source, generator)
);
CREATE TABLE kernels (
    result INTEGER NOT NULL REFERENCES results (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,         -- in launch order
    key TEXT NOT NULL,                 -- equal for equal computations on one target
    emitted TEXT NOT NULL,             -- hash of its emitted text
    seconds REAL,
    registers INTEGER,
    spill_bytes INTEGER,
    PRIMARY KEY (result, position)
) WITHOUT ROWID;
CREATE TABLE notes (
    key TEXT PRIMARY KEY,              -- hash of what a program has finished
    date TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX kernels_by_key ON kernels (key);
CREATE INDEX results_by_label ON results (source, status);
"""


def open_file(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    """Return a connection to a results database; a missing file is created.

    Raises:
        DatabaseError: If the file is no results database, is damaged, of another version, or cannot be opened.
    """
    with explained(path, "open"):
        connection = sqlite3.connect(path, timeout=busy_timeout_s, isolation_level=None)
        try:
            _check(connection, path)
            connection.execute("PRAGMA journal_mode = WAL")
            # With WAL, neither a crash nor a killed process damages the file.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block as one transaction; other writers wait."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite itself rolls back on a full disk
            connection.execute("ROLLBACK")
        raise


@contextmanager
def explained(path: Path, action: str) -> Iterator[None]:
    """Turn SQLite's errors into a DatabaseError with the file and the way out."""
    try:
        yield
    except sqlite3.Error as error:
        raise DatabaseError(f"cannot {action} the results database {path}: {error}; {_way_out(error)}") from error
    except OverflowError as error:
        raise DatabaseError(
            f"cannot {action} the results database {path}: {error}; seeds and counts have at most 63 bits"
        ) from error


def _check(connection: sqlite3.Connection, path: Path) -> None:
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if tables == 0 and application == 0:
        _create(connection)
        return
    if application != APPLICATION_ID:
        raise DatabaseError(f"{path} is a SQLite file of another program, no results database: choose another path")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != VERSION:
        raise DatabaseError(
            f"the results database {path} has version {version}, and this release reads version {VERSION}: use the "
            "release that wrote it, or choose another path"
        )
    damage = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if damage != "ok":
        raise DatabaseError(
            f"the results database {path} is damaged ({damage}): restore a copy, or choose another path"
        )


def _create(connection: sqlite3.Connection) -> None:
    with transaction(connection):
        if connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID:
            return  # created by another process
        for statement in _TABLES.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _way_out(error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", "") or ""
    for prefix, hint in _WAYS_OUT.items():
        if name.startswith(prefix):
            return hint
    return "choose another path, or end other programs that use the file"


_WAYS_OUT = {
    "SQLITE_FULL": "free space on its disk and run again, stored results are kept",
    "SQLITE_BUSY": "another process has locked it; run again when that process has ended, stored results are kept",
    "SQLITE_LOCKED": "another process has locked it; run again when that process has ended, stored results are kept",
    "SQLITE_NOTADB": "it is no SQLite file, so choose another path",
    "SQLITE_CORRUPT": "it is damaged, so restore a copy or choose another path",
    "SQLITE_CANTOPEN": "make its directory, or choose another path",
    "SQLITE_READONLY": "make it and its directory writable, or choose another path",
    "SQLITE_IOERR": "check whether its disk is full or damaged and run again, stored results are kept",
}
