"""Outcomes on disk: one line of JSON for each operator and element type, so that a run can be interrupted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from opinfo.check import Row


class Outcomes:
    """The rows of a file.

    Args:
        path: The file, made if missing; its directory, too.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path

    def append(self, row: Row) -> None:
        """Append a row."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(row), separators=(",", ":")) + "\n")

    def rows(self) -> list[Row]:
        """Return all rows, without a line truncated by an interruption."""
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8").splitlines()
        return [_row(document) for line in lines if (document := _document(line)) is not None]

    def done(self) -> set[tuple[str, str]]:
        """Return operators and element types with a row."""
        return {(row.operator, row.dtype) for row in self.rows()}


def _document(line: str) -> dict[str, Any] | None:
    try:
        document: dict[str, Any] = json.loads(line)
    except json.JSONDecodeError:
        return None
    return document


def _row(document: dict[str, Any]) -> Row:
    return Row(**document | {name: tuple(document[name]) for name in ("translated", "failures")})


def summary(rows: Iterable[Row]) -> str:
    """Return the table of operators, the ATen operators that were translated, and reasons of skips by number."""
    rows = list(rows)
    lines = [f"{'operator':44} types interpreted  in C emulated rounded decomposed skipped failed"]
    for name in dict.fromkeys(row.operator for row in rows):
        of_name = [row for row in rows if row.operator == name]
        if any(row.translated or row.failures for row in of_name):
            lines.append(_line(name, of_name))
    lines.append(_line("all", rows))
    checked = {row.operator for row in rows if row.translated}
    translated = sorted({t for row in rows for t in row.translated})
    skipped: Counter[str] = Counter()
    for row in rows:
        for reason, count in row.skipped.items():
            skipped[reason] += count
    lines += ["", f"{len(checked)} operators of PyTorch's list, {len(translated)} ATen operators:"]
    lines += [", ".join(translated), "", "skipped samples:"]
    lines += [f"{count:6}  {reason}" for reason, count in skipped.most_common()]
    lines += ["", "failures:"]
    lines += [f"{row.operator} {row.dtype} {failure}" for row in rows for failure in row.failures]
    return "\n".join(lines)


def _line(name: str, rows: list[Row]) -> str:
    columns = ("interpreted", "compiled", "emulated", "rounded", "decomposed")
    counts = [sum(getattr(row, column) for row in rows) for column in columns]
    counts += [sum(sum(row.skipped.values()) for row in rows), sum(len(row.failures) for row in rows)]
    cells = [f"{count:{width}}" for count, width in zip(counts, (11, 5, 8, 7, 10, 7, 6), strict=True)]
    return f"{name:44} {len({row.dtype for row in rows}):5} {' '.join(cells)}"
