"""Savings by unroll-and-jam: loads, inlined Funcs and addresses of gathers that jammed rows share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.accesses.accesses import AccessGroup
from autosched.featurize.featurizer import SketchFeaturizer
from autosched.schedule import cpu_policy
from autosched.schedule.types import StageId
from autosched.search.cost.cpu.lane_access_patterns import index_values
from autosched.search.cost.cpu.lane_costs import LANE_BYTES, LaneWorks

Floats = NDArray[np.float64]
Numbers = NDArray[np.uint64]

FAR = 0x9E3779B97F4A7C15
"""Its powers are the strides of an array's rows in a linear index, so that distinct rows are far from each other."""

SPARED = ("unit", "wide", "near", "arithmetic", "divisions")
"""Fields of a `LaneCosts` that unroll-and-jam reduces."""


def saved_loads(
    model: SketchFeaturizer, works: LaneWorks, stage: StageId, lane: str, dim: str, operations: float
) -> Floats | None:  # fmt: skip
    """Return the savings of each evaluation of a stage by unroll-and-jam.

    Args:
        model: The kernel's sketch.
        works: The costs of its stages.
        stage: A stage with threads of its own.
        lane: The dimension of neighbouring lanes.
        dim: The dimension of neighbouring rows.
        operations: Operations of one evaluation.

    Returns:
        ``float64[JAM_FACTORS, SPARED]``, NaN for jam factors that do not apply; None if none applies.
    """
    loads = _loads_near_lanes(model, works, stage, lane)
    count = sum(len(g.offsets) for g, _ in loads or ())
    if loads is None or count < cpu_policy.MIN_JAM_LOADS:
        return None
    called = model.tables.accesses.called_by(stage.func, stage.number, model.sketch.inlined)
    evaluated = works.evaluated(stage, lane)
    savings = np.full((len(cpu_policy.JAM_FACTORS), len(SPARED)), np.nan)
    for k, rows in enumerate(cpu_policy.JAM_FACTORS):
        elements = [_elements(g, dim, rows, works.fastest(g.source)) for g, _ in loads]
        left, streams = sum(map(len, elements)), sum(map(cpu_policy.stream_count, elements))
        if not cpu_policy.jam_pays(rows, operations=operations, loads=count, loads_left=left, streams=streams):
            continue
        savings[k] = 0
        for p, (g, step) in zip(elements, loads, strict=True):
            less = len(g.offsets) - len(p) / rows
            savings[k, 0] += less * (step == 1)
            savings[k, 1] += less * (step == 1) * model.facts.itemsize(g) / LANE_BYTES
            savings[k, 2] += less * (step > 1)
        for g in called:
            less = len(g.offsets) - len(_elements(g, dim, rows, works.fastest(g.source))) / rows
            savings[k, 3] += less * evaluated[g.source].arithmetic
            savings[k, 4] += less * evaluated[g.source].divisions
    return None if np.isnan(savings).all() else savings


def saved_addresses(model: SketchFeaturizer, works: LaneWorks, stage: StageId, lane: str, dim: str) -> Floats | None:
    """Return the savings of each evaluation of a stage by jamming rows that gather at the same positions.

    Args:
        model: The kernel's sketch.
        works: The costs of its stages.
        stage: A stage with threads of its own.
        lane: The dimension of neighbouring lanes.
        dim: The dimension of the rows.

    Returns:
        As `saved_loads`.
    """
    if not _gathers_at_same_positions(model, stage, dim):
        return None
    whole, varying = works.varying(stage, lane), works.varying(stage, dim)
    savings = np.full((len(cpu_policy.JAM_FACTORS), len(SPARED)), np.nan)
    for k, rows in enumerate(cpu_policy.JAM_FACTORS):
        left = whole.operations + (rows - 1) * varying.moving
        if not cpu_policy.gathers_share(rows, operations=whole.operations, operations_left=left):
            continue
        less = 1 - 1 / rows
        savings[k] = 0
        savings[k, 3] = less * max(whole.arithmetic - varying.arithmetic, 0)
        savings[k, 4] = less * max(whole.divisions - varying.divisions, 0)
    return None if np.isnan(savings).all() else savings


def _gathers_at_same_positions(model: SketchFeaturizer, stage: StageId, dim: str) -> bool:
    """Whether addresses of a stage depend on values, loaded or computed, none of them on a dimension."""
    access = model.accesses_of(stage)
    if model.bound.stage(stage.func, stage.number).is_update or access.overflow:
        return False
    gathers = [g for g in access.loads if g.by_data]
    at_data = [loops for g in gathers for row, loops in zip(g.rows, g.moved_by, strict=False) if row is None]
    return bool(gathers) and all(g.moved_by for g in gathers) and all(dim not in loops for loops in at_data)


def _loads_near_lanes(
    model: SketchFeaturizer, works: LaneWorks, stage: StageId, lane: str
) -> list[tuple[AccessGroup, int]] | None:  # fmt: skip
    """Return a stage's loads with the distance of neighbouring lanes; None if its rows cannot be jammed."""
    bound, access = model.bound, model.accesses_of(stage)
    if bound.stage(stage.func, stage.number).is_update or access.overflow:
        return None
    groups = [*access.loads, *access.stores]
    steps = [works.step(stage, g, lane) for g in groups]
    limit = cpu_policy.MAX_VECTOR_STEP
    near = [(g, step) for g, step in zip(groups, steps, strict=True) if step is not None and step <= limit]
    if len(near) < len(groups) or any(g.by_data or g.source == stage.func for g in access.loads):
        return None
    return near[: len(access.loads)]


def _elements(group: AccessGroup, dim: str, rows: int, fastest: int) -> Numbers:
    """Return the distinct elements that jammed rows access, as numbers, ``uint64[n]`` in order.

    A number is a linear form of the indices modulo 2**64: elements that are adjacent in memory have adjacent numbers,
    and elements of different rows have distant ones.
    """
    weights = np.array([1 if k == fastest else pow(FAR, k + 1, 1 << 64) for k in range(len(group.rows))], np.uint64)
    numbers = index_values(group, dim, rows).astype(np.uint64) @ weights
    elements: Numbers = np.unique(numbers + np.uint64(1 << 63))  # neighbours of 0 are on both sides of it
    return elements
