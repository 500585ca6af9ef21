"""Stored measurements, read with a check of every value and errors with row and column."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from autosched.errors import DatabaseError
from autosched.measure.compile.content_keys import digest
from autosched.measure.compile.program_version import marked_version, program_version
from autosched.measure.job import Status
from autosched.measure.problem import Problem
from autosched.schedule.io.strict_json import Node, parse

_RESTORE = "restore a copy of the file, or choose another path"
_MAX_INT64 = 2**63 - 1
COLUMNS = (
    "problem", "pipeline_hash", "schedule", "target", "source", "generator", "status", "seconds", "spread", "error",
    "origin", "seed", "compiler", "driver", "conditions", "date",
)  # fmt: skip
"""Columns of a stored measurement."""
KERNEL_COLUMNS = ("seconds", "keys", "registers", "spill_bytes")
"""Columns of each kernel of a stored measurement."""
_STATUSES = {str(s): s for s in Status}


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A stored measurement.

    Attributes:
        problem_text: Text of the problem; `problem` parses it.
        schedule: One line of JSON.
        pipeline_hash: Hash of the measured pipeline. Another release may draw another random pipeline from the same
            seed: compare before using the row.
        target: Name of the target.
        source: Source of the label.
        generator: Version of the code generator.
        status: Status of the measurement.
        seconds: Median time of the pipeline, None unless the status is ok.
        spread: Interquartile range over the median.
        kernel_seconds: Time of each kernel in launch order.
        kernel_keys: Key of each kernel in launch order.
        registers: Registers per thread of each kernel; empty if unknown.
        spill_bytes: Spilled bytes per thread of each kernel; empty if unknown.
        error: Message of the failure.
        origin: Origin of the schedule.
        seed: Seed of inputs and noise.
        compiler: Name and version of the compiler.
        driver: Version of the GPU's driver.
        conditions: Clocks, threads, copies of the buffers.
        date: Date of storing, UTC.
    """

    problem_text: str = field(repr=False)
    schedule: str = field(repr=False)
    pipeline_hash: str
    target: str
    source: str
    generator: str
    status: Status
    seconds: float | None
    spread: float | None
    kernel_seconds: tuple[float, ...]
    kernel_keys: tuple[str, ...] = field(repr=False)
    registers: tuple[int, ...]
    spill_bytes: tuple[int, ...]
    error: str
    origin: str
    seed: int
    compiler: str
    driver: str
    conditions: dict[str, Any]
    date: str

    @property
    def problem(self) -> Problem:
        """The pipeline with its shapes."""
        return Problem.parse(self.problem_text)

    @property
    def schedule_hash(self) -> str:
        """SHA-256 of the schedule's text, in hexadecimal."""
        return digest(self.schedule)

    def is_of(self, generator: str) -> bool:
        """Return whether a version of the code generator emits the measured text."""
        if self.generator in (generator, marked_version(generator)):
            return self.generator == program_version(generator, self.problem, self.schedule, self.target)
        return False


def read_row(
    source: str,
    columns: Mapping[str, object],
    hashes: Mapping[str, object],
    kernels: Mapping[str, object],
) -> StoredRow:
    """Return a stored measurement.

    Args:
        source: Name of the row in messages.
        columns: Its values, by the column names of the results table; ``problem`` is the text.
        hashes: Stored hashes of some columns.
        kernels: ``seconds``, ``keys``, ``registers`` and ``spill_bytes`` of its kernels, in launch order.

    Raises:
        DatabaseError: If a value is invalid for its column, or does not match its hash.
    """
    top = Node(None, "", source, DatabaseError, _RESTORE)
    nodes = {name: top.part(value, f"column {name}") for name, value in columns.items()}
    text = {name: nodes[name].text() for name in _TEXTS}
    for name, stored in hashes.items():
        if _HASHES[name](text[name]) != stored:
            raise nodes[name].error("does not match its hash")
    status = nodes["status"].choice(_STATUSES, "status of a measurement")
    seconds, spread = _optional(nodes["seconds"], math.ulp(0.0)), _optional(nodes["spread"], 0.0)
    if (seconds is None) == (status is Status.OK):
        raise nodes["seconds"].error(f"is {seconds} where the status is {status}: only the status ok has a time")
    return StoredRow(
        text["problem"], text["schedule"], text["pipeline_hash"], text["target"], text["source"], text["generator"],
        status, seconds, spread,
        _numbers(top, kernels, "seconds", _seconds), tuple(n.text() for n in _of_kernels(top, kernels, "keys")),
        _numbers(top, kernels, "registers", _count), _numbers(top, kernels, "spill_bytes", _count),
        text["error"], text["origin"], nodes["seed"].integer(-_MAX_INT64 - 1, _MAX_INT64), text["compiler"],
        text["driver"], _conditions(nodes["conditions"]), _date(nodes["date"]),
    )  # fmt: skip


_TEXTS = (
    "problem", "pipeline_hash", "schedule", "target", "source", "generator", "error", "origin", "compiler", "driver",
)  # fmt: skip


@lru_cache(maxsize=16)  # consecutive rows have the same problem
def _plain_hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


_HASHES: Mapping[str, Callable[[str], str]] = {
    "problem": _plain_hash,
    "schedule": digest,
}


def _optional(node: Node, low: float) -> float | None:
    return None if node.value is None else node.number(low)


def _of_kernels(top: Node, kernels: Mapping[str, object], name: str) -> list[Node]:
    values = kernels.get(name)
    column = top.part(list(values) if isinstance(values, tuple) else values, f"column {name} of its kernels")
    return [] if values is None else column.items()


def _numbers(top: Node, kernels: Mapping[str, object], name: str, read: Any) -> tuple[Any, ...]:
    return tuple(read(n) for n in _of_kernels(top, kernels, name) if n.value is not None)


def _seconds(node: Node) -> float:
    return node.number(0.0)


def _count(node: Node) -> int:
    return node.integer(0, _MAX_INT64)


def _conditions(node: Node) -> dict[str, Any]:
    """Return the conditions; text in a database, a mapping elsewhere."""
    conditions = parse(node.text(), f"{node.source}: {node.path}", node.failure, node.remedy)
    return {k: v.value if isinstance(v.value, str) else v.number() for k, v in conditions.mapping().items()}


def _date(node: Node) -> str:
    text = node.text()
    try:
        datetime.fromisoformat(text)
    except ValueError as error:
        raise node.error(f"is {text[:40]!r}: give a date and time as in ISO 8601") from error
    return text
