"""Fission candidates of `autosched schedule`: a schedule file for each way to divide outputs among kernels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from autosched.commands.show import format_time, print_table
from autosched.schedule.io.serialise import save_schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.tune.cost_models import cost_model
from autosched.search.tune.effort_levels import effort_level
from autosched.search.tune.fission_candidates import FissionCandidate, FissionCandidates, fission_candidates


@dataclass(frozen=True)
class WrittenCandidates:
    """The candidates and their files.

    Attributes:
        candidates: The candidates.
        directory: The directory of ``NAME.json``.
    """

    candidates: FissionCandidates
    directory: Path

    def path(self, candidate: FissionCandidate) -> Path:
        """Return the file of a candidate."""
        return self.directory / f"{candidate.name}.json"

    def to_data(self) -> dict[str, Any]:
        """Return names, files and predictions as plain data."""
        found = [
            {
                "name": c.name,
                "file": str(self.path(c)),
                "kernels": len(c.schedule.kernels),
                "predicted_s": c.seconds,
                "spill_bytes": list(c.spill_bytes),
            }
            for c in self.candidates.found
        ]
        return {"found": found, "refused": list(self.candidates.refused)}


def write_candidates(
    scheduled: ScheduledPipeline, directory: Path, *, cost: str | None, effort: str, seed: int, seconds: float | None
) -> WrittenCandidates:
    """Search a schedule for each version of a pipeline and write it to a file.

    Args:
        scheduled: The pipeline with its target.
        directory: An existing directory.
        cost: The cost model.
        effort: Effort of each search.
        seed: Seed of the searches.
        seconds: Time budget of all searches together.

    Raises:
        InputError: If a file cannot be written.
    """
    bound, target = scheduled.bound.root_pipeline, scheduled.target
    chosen = effort_level(effort).settings[target.kind]
    found = fission_candidates(bound, target, cost_model(cost, target), chosen, seed=seed, seconds=seconds)
    written = WrittenCandidates(found, directory)
    for candidate in found.found:
        save_schedule(written.path(candidate), bound, candidate.schedule)
    return written


def print_candidates(written: WrittenCandidates) -> None:
    """Print the candidates as a table."""
    rows = [
        (c.name, len(c.schedule.kernels), format_time(c.seconds), _spilled(c), written.path(c))
        for c in sorted(written.candidates.found, key=lambda c: (sum(c.spill_bytes), c.seconds))
    ]
    if rows:
        print_table(("fission", "kernels", "predicted", "spilled bytes", "file"), rows)
    for name in written.candidates.refused:
        click.echo(f"{name} has no legal schedule: its kernels would have too much code")


def _spilled(candidate: FissionCandidate) -> str:
    return str(sum(candidate.spill_bytes)) if candidate.spill_bytes else "unknown"
