"""Schedules generated ahead of time, on a machine without a GPU."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from autosched.measure.problem import Problem
from autosched.search.datasets.parallel_generation import GeneratedCandidates

Known = dict[str, list[tuple[str, str]]]
"""Kinds and schedules (JSON) by the text of their problem, in order of generation."""


def read_drawn(path: Path) -> Known:
    """Return the schedules of a file written by `write_drawn`; empty if the file is missing.

    Raises:
        ValueError: If it is damaged; the message names it.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return {problem: [(kind, text) for kind, text in found] for problem, found in json.load(file).items()}
    except FileNotFoundError:
        return {}
    except (OSError, EOFError, ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{path} is damaged ({error}): recreate it with --steps compile, or remove it") from error


def write_drawn(path: Path, schedules: Mapping[str, list[tuple[str, str]]]) -> None:
    """Replace a file by schedules."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with gzip.open(beside, "wt", encoding="utf-8", compresslevel=6) as file:
            json.dump(schedules, file)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def drawn_before(path: Path) -> Iterator[tuple[Problem, GeneratedCandidates]]:
    """Yield the problems of a file with their schedules."""
    for problem, found in read_drawn(path).items():
        yield Problem.parse(problem), GeneratedCandidates(tuple(found))
