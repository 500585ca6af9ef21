"""Random loops of scans over rows, with steps that threads, blocks or launches iterate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autosched.analysis.bound_pipeline import BoundStage
from autosched.schedule.kernel.row_scans import MOST_LAUNCHES, in_step, step_count
from autosched.schedule.types import Loop, LoopKind

LAUNCHED_SHARE = 0.4
"""Share of the split scans with one launch per step, if the steps are at most `MOST_LAUNCHES`."""
SPLIT_SHARE = 0.8
"""Share of the scans whose rows are split over threads."""


def tiled_loops(rng: np.random.Generator, stage: BoundStage, *, rows: bool) -> list[str]:
    """Return the loops of a scan to split over blocks and threads, with ``rows`` also those within a step."""
    inside = in_step(stage) if rows else frozenset()
    parallel = (d for d in stage.loops if d.parallel or d.name in inside)
    return [d.name for d in parallel if not d.reduction or rng.random() < 0.8]


def scan_loops(
    rng: np.random.Generator, stage: BoundStage, sizes: dict[str, int],
    split: tuple[Sequence[Loop], Sequence[Loop], Sequence[Loop]], *, rows: bool,
) -> tuple[Loop, ...]:  # fmt: skip
    """Return loops of a scan.

    Args:
        rng: Source of randomness.
        stage: The scan.
        sizes: Sizes of its loops.
        split: Block, thread and serial loops of the split dimensions.
        rows: Whether loops within a step are split.
    """
    blocks, threads, serial = split
    named = {p.dim for p in blocks}
    steps = [Loop(d, LoopKind.REDUCTION, sizes[d]) for d in stage.steps]
    left = [d for d in stage.loops if d.name not in named]
    if not rows:
        terms = [Loop(d.name, LoopKind.REDUCTION, d.extent) for d in left if d.reduction]
        points = [Loop(d.name, LoopKind.SERIAL, sizes[d.name]) for d in left if not d.reduction]
        return (*blocks, *threads, *serial, *_after(rng, terms, points, set(stage.steps)))
    terms = [Loop(d.name, LoopKind.REDUCTION, d.extent) for d in left if d.reduction and d.name not in stage.steps]
    if step_count(stage) <= MOST_LAUNCHES and rng.random() < LAUNCHED_SHARE:
        return (*steps, *blocks, *threads, *_after(rng, terms, serial, set()))
    inside = in_step(stage)
    rest = [Loop(p.dim, LoopKind.SERIAL, p.extent) for p in blocks if p.dim in inside and p.extent > 1]
    independent = [p for p in blocks if p.dim not in inside]
    early = [p for p in rest if rng.random() < 0.7]  # neighbouring threads then have neighbouring points
    inner = _after(rng, terms, [*serial, *(p for p in rest if p not in early)], set())
    return (*independent, *steps, *early, *threads, *inner)


def _after(rng: np.random.Generator, terms: list[Loop], points: Sequence[Loop], steps: set[str]) -> list[Loop]:
    """Insert loops over points at random among those over terms, inside the loops over steps."""
    mixed = list(terms)
    first = 1 + max((k for k, p in enumerate(mixed) if p.dim in steps), default=-1)
    for loop in points:
        mixed.insert(int(rng.integers(first, len(mixed) + 1)), loop)
    return mixed
