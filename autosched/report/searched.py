"""How a schedule was found, in words and as tables."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.report.numbers import shown_time
from autosched.scheduled_protocol import Scheduled
from autosched.search.evaluate.counts import Counts


def how_found(scheduled: Scheduled) -> str:
    """Return in a line how a schedule was found."""
    origin, found = scheduled.provenance, scheduled.search_result
    parts = []
    if origin is not None:
        samples = f" of {origin.samples} samples" if origin.samples > 1 else ""
        parts.append(f"{origin.how}, {origin.strategy}{samples}, seed {origin.seed}, in {shown_time(origin.took_s)}")
        if origin.reused:
            parts.append("taken from the cache of schedules")
    elif found is not None:
        parts.append(f"searched in {shown_time(found.seconds)}")
    else:
        return "without a search: written by hand or read from a file"
    if found is not None:
        if found.counts.kernels:
            parts.append(f"{found.counts.kernels} kernels costed, {found.counts.hit_rate:.0%} of those asked for known")
        if found.cut_short:
            parts.append("cut short by its time budget")
    note = origin.note if origin is not None else found.note if found is not None else ""
    return "; ".join([*parts, *([note] if note else [])])


@dataclass(frozen=True, slots=True)
class SearchTables:
    """What a search did, as rows of tables: name and number, the most first."""

    considered: list[tuple[str, int]]
    pruned: list[tuple[str, int]]
    buckets: list[tuple[str, int]]
    activities: list[tuple[str, str]]

    @classmethod
    def of(cls, counts: Counts) -> SearchTables | None:
        """Return the tables, or None for a search that counted nothing."""
        if not (counts.kernels or counts.considered):
            return None
        spent = sorted(counts.seconds.items(), key=lambda part: -part[1])
        return cls(
            counts.considered.most_common(),
            counts.pruned.most_common(),
            [(f"{size} to {2 * size - 1}", n) for size, n in sorted(counts.buckets.items())],
            [(name, shown_time(seconds)) for name, seconds in spent],
        )
