"""The part of one sketch in the arrays of a batch, by the names of its stages and Funcs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autosched.featurize.accesses.accesses import AccessGroup
from autosched.featurize.accesses.batch_accesses import BatchAccesses
from autosched.featurize.accesses.memory_traffic import MemoryTraffic
from autosched.featurize.regions.geometry import Geometry
from autosched.featurize.regions.nest_arrays import Ints
from autosched.featurize.regions.nest_geometry import NestGeometry
from autosched.featurize.regions.required_regions import RequiredRegions
from autosched.featurize.sketch.sketch_analysis import SketchAnalysis
from autosched.featurize.tables.kernel_tables import KernelTables
from autosched.schedule.types import Level, StageId


@dataclass(frozen=True)
class KernelGeometry:
    """All nests of one sketch's candidates.

    Attributes:
        nests: Root stages, block-level producers, thread-level producers.
        blocks: ``int64[N]``, blocks of the grid.
        block: ``int64[N, 3]``, threads of a block in x, y, z.
        active: By nest position, ``int64[N, 3]``, threads with points in x, y, z.
        extents: By fused producer, ``int64[N, dims of the Func]``, its buffer.
    """

    nests: tuple[NestGeometry, ...]
    blocks: Ints
    block: Ints
    active: tuple[Ints, ...]
    extents: Mapping[str, Ints]

    def nest(self, stage: StageId) -> NestGeometry:
        """Return the nest of a stage."""
        return next(n for n in self.nests if n.id == stage)


@dataclass(frozen=True)
class StageAccess:
    """Traffic of one group of a stage's accesses, with direction and memory."""

    group: AccessGroup
    store: bool
    memory: int
    cost: MemoryTraffic


def kernel_geometry(
    facts: SketchAnalysis, plan: KernelTables, batch: Geometry, demands: RequiredRegions
) -> KernelGeometry:
    """Return the geometry of a batch of one sketch."""
    n = len(batch.blocks)
    nests, active = [], []
    extents: dict[str, Ints] = {}
    for k, stage in enumerate(facts.rows):
        rows = np.arange(n) * len(facts.rows) + k
        location = facts.sketch.location(stage.func)
        level = Level.ROOT if location is None else location.level
        names, reduces = demands.thread_loops(int(plan.demands[k])) if level is Level.THREAD else ((), ())
        bound_stage = facts.bound.stage(stage.func, stage.number)
        nests.append(NestGeometry(batch.nests, rows, bound_stage, level, facts.dims[k], names, reduces))
        active.append(batch.nests.active[rows])
        if location is not None:
            extents.setdefault(stage.func, batch.nests.extents[rows][:, : len(facts.dims[k])])
    return KernelGeometry(tuple(nests), batch.blocks, batch.block, tuple(active), extents)


def accesses_by_stage(
    facts: SketchAnalysis, plan: KernelTables, accesses: BatchAccesses, cost: MemoryTraffic
) -> dict[StageId, list[StageAccess]]:
    """Return the traffic of a batch of one sketch, by stage."""
    by_stage: dict[StageId, list[StageAccess]] = {s: [] for s in facts.rows}
    count = len(plan.groups)
    memory = accesses.kinds["memory"]
    for a, (k, group, store) in enumerate(plan.groups):
        by_stage[facts.rows[k]].append(StageAccess(group, store, int(memory[a]), cost.of(slice(a, None, count))))
    return by_stage
