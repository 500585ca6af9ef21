"""What rows of lanes share that the C backend takes together (`autosched.codegen.rows`): loads and inlined Funcs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from autosched.codegen.lanes import MAX_VECTOR_STEP
from autosched.codegen.rows import LEAST_LOADS, MOST_LOADS_LEFT, MOST_OPERATIONS, MOST_STREAMS, NEAR, ROWS
from autosched.featurize.accesses import AccessGroup, Row
from autosched.featurize.model import KernelModel
from autosched.schedule.types import StageId
from autosched.search.lane_work import LANE_BYTES, LaneWorks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SPARED = ("unit", "wide", "near", "arithmetic", "divisions")
"""Fields of a `LaneWork` of which an evaluation is spared some."""


def spared_by_rows(model: KernelModel, works: LaneWorks, stage: StageId, lane: str, dim: str) -> Floats | None:
    """Return what each evaluation of a stage is spared where rows of lanes are taken together.

    Args:
        model: The kernel's structure.
        works: The work of its stages.
        stage: A stage with threads of its own.
        lane: The dimension that neighbouring lanes walk.
        dim: The dimension that neighbouring rows walk.

    Returns:
        ``float64[ROWS, SPARED]``, NaN for a number of rows that is not taken together; None where none is.
    """
    loads = _loads_near_lanes(model, works, stage, lane)
    count = sum(len(g.offsets) for g, _ in loads or ())
    operations = works.of(stage, lane).operations
    if loads is None or count < LEAST_LOADS:
        return None
    found = np.full((len(ROWS), len(SPARED)), np.nan)
    for k, rows in enumerate(ROWS):
        points = [_points(g, dim, rows) for g, _ in loads]
        left = sum(map(len, points))
        streams = sum(_streams(p, works.fastest(g.source)) for p, (g, _) in zip(points, loads, strict=True))
        if rows * operations > MOST_OPERATIONS or left > MOST_LOADS_LEFT * rows * count or streams > MOST_STREAMS:
            continue
        found[k] = 0
        for p, (g, step) in zip(points, loads, strict=True):
            less = len(g.offsets) - len(p) / rows
            found[k, 0] += less * (step == 1)
            found[k, 1] += less * (step == 1) * model.facts.itemsize(g) / LANE_BYTES
            found[k, 2] += less * (step > 1)
        for g in model.f.accesses.called_by(stage.func, stage.number, model.structure.inlined):
            work = works.evaluated(stage, lane)[g.source]
            less = len(g.offsets) - len(_points(g, dim, rows)) / rows
            found[k, 3] += less * work.arithmetic
            found[k, 4] += less * work.divisions
    return None if np.isnan(found).all() else found


def _loads_near_lanes(
    model: KernelModel, works: LaneWorks, stage: StageId, lane: str
) -> list[tuple[AccessGroup, int]] | None:  # fmt: skip
    """Return a stage's loads and how far apart lanes load; None where its rows cannot be taken together."""
    bound, access = model.bound, model.accesses_of(stage)
    if bound.stage(stage.func, stage.number).is_update or access.overflow:
        return None
    groups = [*access.loads, *access.stores]
    steps = [works.step(stage, g, lane) for g in groups]
    near = [(g, step) for g, step in zip(groups, steps, strict=True) if step is not None and step <= MAX_VECTOR_STEP]
    if len(near) < len(groups) or any(g.by_data or g.source == stage.func for g in access.loads):
        return None
    return near[: len(access.loads)]


def _points(group: AccessGroup, dim: str, rows: int) -> set[tuple[int, ...]]:
    """Return the different constants of what so many rows access."""
    shifts = [_shift(row, dim) for row in group.rows]
    return {
        tuple(_value(row, n + k * shift) for row, n, shift in zip(group.rows, offset, shifts, strict=True))
        for offset in group.offsets
        for k in range(rows)
    }


def _shift(row: Row | None, dim: str) -> int:
    """Return how far an index, times its quotient, moves from a row to the next."""
    return 0 if row is None else dict(row.coefficients).get(dim, 0)


def _value(row: Row | None, numerator: int) -> int:
    return numerator if row is None else numerator // row.quotient


def _streams(points: set[tuple[int, ...]], fastest: int) -> int:
    """Return how many places accesses are in: runs of elements that lie near each other in a row."""
    places: dict[Sequence[int], list[int]] = {}
    for p in points:
        places.setdefault((*p[:fastest], *p[fastest + 1 :]), []).append(p[fastest] if p else 0)
    return sum(1 + sum(b - a > NEAR for a, b in pairwise(sorted(columns))) for columns in places.values())
