"""Provenance and search statistics of a schedule, as text and tables."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.plural import counted
from autosched.report.numbers import shown_time
from autosched.scheduled_protocol import Scheduled
from autosched.search.evaluate.counts import Counts


def how_found(scheduled: Scheduled) -> str:
    """Return the provenance of a schedule in one line."""
    origin, result = scheduled.provenance, scheduled.search_result
    parts = []
    if origin is not None:
        samples = f" of {origin.samples} samples" if origin.samples > 1 else ""
        effort = f", {origin.effort} effort" if origin.effort else ""
        parts.append(
            f"{origin.how}, {origin.strategy}{samples}{effort}, seed {origin.seed}, in {shown_time(origin.took_s)}"
        )
        if origin.reused:
            parts.append("taken from the cache of schedules")
    elif result is not None:
        parts.append(f"searched in {shown_time(result.seconds)}")
    else:
        return "without a search: written by hand or read from a file"
    if result is not None:
        if result.counts.kernels:
            kernels = counted(result.counts.kernels, "kernel")
            parts.append(f"{kernels} costed, cache hit rate {result.counts.hit_rate:.0%}")
        if result.cut_short:
            parts.append("cut short by its time budget")
    note = origin.note if origin is not None else result.note if result is not None else ""
    return "; ".join([*parts, *([note] if note else [])])


@dataclass(frozen=True, slots=True)
class SearchTables:
    """Statistics of a search as table rows: name and number, the largest first."""

    considered: list[tuple[str, int]]
    pruned: list[tuple[str, int]]
    buckets: list[tuple[str, int]]
    activities: list[tuple[str, str]]

    @classmethod
    def of(cls, counts: Counts) -> SearchTables | None:
        """Return the tables, or None for a search without counts."""
        if not (counts.kernels or counts.considered):
            return None
        spent = sorted(counts.seconds.items(), key=lambda part: -part[1])
        return cls(
            counts.considered.most_common(),
            counts.pruned.most_common(),
            [(f"{size} to {2 * size - 1}", n) for size, n in sorted(counts.buckets.items())],
            [(name, shown_time(seconds)) for name, seconds in spent],
        )
