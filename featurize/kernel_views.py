"""One kernel structure's part of what was worked out for many, under the names of its stages and Funcs."""

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
    """All nests of one structure's candidates.

    Attributes:
        nests: Root stages, BLOCK Members, THREAD Members.
        blocks: ``int64[N]``, blocks of the grid.
        block: ``int64[N, 3]``, threads of a block in x, y, z.
        active: By nest position, ``int64[N, 3]``, threads in x, y, z that take part.
        extents: By Member, ``int64[N, dims of the Func]``, its buffer.
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
    """What one group of a stage's accesses costs, whether it stores, and to which memory it goes."""

    group: AccessGroup
    store: bool
    memory: int
    cost: MemoryTraffic


def kernel_geometry(
    facts: SketchAnalysis, plan: KernelTables, found: Geometry, demands: RequiredRegions
) -> KernelGeometry:
    """Return the geometry of the one structure that it was worked out for."""
    n = len(found.blocks)
    nests, active = [], []
    extents: dict[str, Ints] = {}
    for k, stage in enumerate(facts.rows):
        rows = np.arange(n) * len(facts.rows) + k
        spot = facts.structure.spot(stage.func)
        level = Level.ROOT if spot is None else spot.level
        names, reduces = demands.thread_loops(int(plan.demands[k])) if level is Level.THREAD else ((), ())
        bound_stage = facts.bound.stage(stage.func, stage.number)
        nests.append(found.nests.shape(rows, bound_stage, level, facts.dims[k], names, reduces))
        active.append(found.nests.active[rows])
        if spot is not None:
            extents.setdefault(stage.func, found.nests.extents[rows][:, : len(facts.dims[k])])
    return KernelGeometry(tuple(nests), found.blocks, found.block, tuple(active), extents)


def accesses_by_stage(
    facts: SketchAnalysis, plan: KernelTables, accesses: BatchAccesses, cost: MemoryTraffic
) -> dict[StageId, list[StageAccess]]:
    """Return what the accesses of the one structure cost that they were worked out for, by stage."""
    found: dict[StageId, list[StageAccess]] = {s: [] for s in facts.rows}
    count = len(plan.groups)
    memory = accesses.kinds["memory"]
    for a, (k, group, store) in enumerate(plan.groups):
        found[facts.rows[k]].append(StageAccess(group, store, int(memory[a]), cost.of(slice(a, None, count))))
    return found
