"""Results on disk: one line of JSON per program, appended at once, so that a run can be interrupted."""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzzing.check import FAILURES, REFUSED, RIGHT, TOO_LARGE

FILE = "programs.jsonl"


@dataclass(frozen=True)
class Row:
    """Record of one program.

    Attributes:
        number: Number of the program.
        family: Its class.
        verdict: As in `fuzzing.check.Outcome`.
        seconds: Time of the whole program.
        reason: Reason of a refusal, or message of a failure.
        trials: Seconds of each trial.
        signature: Key of failures of the same kind.
        script: File that reproduces a failure.
    """

    number: int
    family: str
    verdict: str
    seconds: float
    reason: str = ""
    trials: dict[str, float] = field(default_factory=dict)
    signature: tuple[str, ...] = ()
    script: str = ""


class Records:
    """The rows of a directory.

    Args:
        directory: Their directory, created if missing.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / FILE

    @contextmanager
    def open_to_append(self) -> Iterator[None]:
        """Lock out other runs; the system releases the lock when the process ends in any way.

        Raises:
            BlockingIOError: If another run has the lock.
        """
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _end_last_line(self.path)
            yield
        finally:
            os.close(descriptor)

    def append(self, row: Row) -> None:
        """Append a row atomically, with one system call."""
        line = json.dumps(vars(row), separators=(",", ":")) + "\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def rows(self) -> list[Row]:
        """Return all rows, without a line truncated by an interruption."""
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        return [Row(**document) for line in lines if (document := _document(line)) is not None]

    def done(self) -> set[int]:
        """Return the numbers of the finished programs."""
        return {row.number for row in self.rows()}


def _end_last_line(path: Path) -> None:
    """Terminate a line truncated by an interruption, so that the next row starts a new line."""
    if path.exists() and (content := path.read_bytes()) and not content.endswith(b"\n"):
        with path.open("ab") as file:
            file.write(b"\n")


def _document(line: str) -> dict[str, Any] | None:
    try:
        document = json.loads(line)
    except json.JSONDecodeError:
        return None
    return {**document, "signature": tuple(document.get("signature", ()))} if isinstance(document, dict) else None


def summary(rows: Iterable[Row]) -> str:
    """Return counts by class, the most common refusals, the failures by signature, and seconds per program."""
    rows = list(rows)
    verdicts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    seconds: Counter[str] = Counter()
    for row in rows:
        verdicts[row.family][row.verdict] += 1
        seconds[row.family] += row.seconds  # type: ignore[assignment]
    lines = [f"{'class':28} programs  right refused  large failed  s/program"]
    for family in sorted(verdicts):
        lines.append(_line(family, verdicts[family], float(seconds[family])))
    lines.append(_line("all", sum(verdicts.values(), Counter()), float(sum(seconds.values()))))
    lines += _commonest("refused", Counter(r.reason for r in rows if r.verdict == REFUSED))
    failed = Counter("; ".join(filter(None, r.signature)) for r in rows if r.verdict in FAILURES)
    return "\n".join([*lines, *_commonest("failed", failed)])


def _line(name: str, counts: Counter[str], seconds: float) -> str:
    total = counts.total()
    failed = sum(counts[kind] for kind in FAILURES)
    mean = seconds / total if total else 0.0
    cells = f"{total:8} {counts[RIGHT]:6} {counts[REFUSED]:7} {counts[TOO_LARGE]:6} {failed:6} {mean:10.2f}"
    return f"{name:28} {cells}"


def _commonest(what: str, counts: Counter[str], most: int = 12) -> list[str]:
    return [f"{what} {n} times: {text}" for text, n in counts.most_common(most)]
